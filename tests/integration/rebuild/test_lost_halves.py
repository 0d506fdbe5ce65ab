"""Kafka loses the end of the half topic: an unclean election, or a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.rebuild.test_rebuild import NEVER_ASKED, SLOW_S, rebuild
from tests.integration.running import COMMIT, Topics, commit, deployed, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.protocol.errors import CheckpointError
from checkback.testing.broker import QUICK_START, Broker

LENGTH = slice(8, 12)
"""Of a record batch: how many bytes follow."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker", jvm_options=QUICK_START) as running:
        yield running


def cut(broker: Broker, data: Path, topic: str, kept: int) -> None:
    """Take all but some record batches from the topic's first partition, as a lost disk does."""
    broker.stop()
    [log] = data.rglob(f"{topic}-0/*.log")
    content, end = log.read_bytes(), 0
    for _ in range(kept):
        end += 12 + int.from_bytes(content[end:][LENGTH])
    assert end < len(content)
    log.write_bytes(content[:end])
    for file in log.parent.iterdir():
        if file.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            file.unlink()
    for mark in data.rglob(".kafka_cleanshutdown"):
        mark.unlink()
    broker.start()


@pytest.mark.nightly  # by day brokers lose records in tests/simulation/test_exactly_once.py
@pytest.mark.timeout(900)
@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("is_running", [True, False])
def test_halves_at_offsets_of_lost_ones_are_delivered_after_a_rebuild(
    broker: Broker, tmp_path: Path, shared_jvm: SharedJvm, is_running: bool, grows: bool
) -> None:
    """They counted as settled: acknowledged, committed, never delivered, and nothing was said."""
    topics = Topics(broker.bootstrap_servers, "lost-")
    settings, real = deployed(topics, tmp_path, trigger_interval_ms=500)

    old, new = [f"old-{number}" for number in range(5)], [f"new-{number}" for number in range(7)]
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        waiting = topics.send_half(b"waits", real, properties=NEVER_ASKED)
        commit(topics, real, *old)
        wait_until(lambda: topics.bodies(real) == old, SLOW_S, "finals")
        if not is_running:
            assert pipeline.terminate() == 0
        cut(broker, tmp_path / "broker", topics.names.half, kept=3)
        if grows:
            commit(topics, real, *new)
        if is_running:
            assert pipeline.wait(SLOW_S) == CheckpointError.exit_code, pipeline.errors()
            assert "checkback checkpoint rebuild" in pipeline.errors()
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        assert pipeline.wait(SLOW_S) == CheckpointError.exit_code
        assert "was read up to offset 6, and lost what stood from offset 3 on" in pipeline.errors()
        assert "Run `checkback checkpoint rebuild`" in pipeline.errors()

    with shared_jvm.lent() as jvm:
        code, told = rebuild(settings, tmp_path, "--yes", jvm=jvm)
    assert (code, {one["code"] for one in told["problems"]}) == (0, {"lost-records"}), told
    assert told["counts"]["void"] == 3
    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started", SLOW_S)
        if not grows:
            commit(topics, real, *new)
        topics.send_op(waiting, "waits", COMMIT)
        wait_until(lambda: len(topics.bodies(real)) >= 13, SLOW_S, "finals")
        assert pipeline.terminate() == 0
    assert topics.bodies(real) == sorted([*old, *new, "waits"])
    assert topics.reasons() == []
