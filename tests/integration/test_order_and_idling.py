"""Finals of one key in order, and a pipeline that sleeps but misses nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.integration.client.playing import Scripted, producer_over
from tests.integration.running import (
    COMMIT,
    SPARK,
    Pipeline,
    Topics,
    deployed,
    printed_without,
    wait_until,
)
from tests.integration.shared_jvm import SharedJvm
from tests.programs import checkback

from checkback.checkpoints.local_files import LocalCheckpoint
from checkback.client import Message
from checkback.deploy.settings import write_settings
from checkback.protocol.configuration import Settings

QUIET_S = 3.0


def values(topics: Topics, real: str) -> list[int]:
    return [int(message.value() or b"") for message in topics.read(real)]


def test_synchronous_sends_with_one_key_come_out_in_their_order(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    """They came out 1, 5, 3, 7, 2: pages of one half partition were in several state partitions."""
    topics.half_partitions = 2
    settings, real = deployed(topics, tmp_path, state_partitions=2, page_size=4)
    producer = producer_over(topics, "g", Scripted())
    producer.start()

    def send(first: int, last: int) -> None:
        for number in range(first, last):
            producer.send_message_in_transaction(Message(real, b"%d" % number, keys="one"))

    with Pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        send(0, 20)
        wait_until(lambda: len(values(topics, real)) >= 5, what="the first finals")
        pipeline.kill()
    send(20, 30)
    with shared_jvm.pipeline(settings, tmp_path):
        send(30, 40)
        wait_until(lambda: len(values(topics, real)) >= 40, what="all finals")
    producer.shutdown()

    assert values(topics, real) == list(range(40))


def run_beside(settings: Settings, folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run a command with these settings; return its exit code and its JSON."""
    config = folder / "beside.toml"
    write_settings(config, settings)
    options = ["--config", str(config), "--output", "json"]
    ran = checkback(*words, *options)
    return ran.returncode, json.loads(ran.stdout or ran.stderr)


def test_an_idle_pipeline_sleeps_wakes_and_can_be_looked_at(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings, real = deployed(
        topics, tmp_path, transaction_timeout_ms=8_000, check_interval_ms=60_000
    )
    store = LocalCheckpoint(tmp_path / "checkpoint")

    def commits_in_a_while() -> int:
        before = store.last_batch("commits") or 0
        time.sleep(QUIET_S)
        return (store.last_batch("commits") or 0) - before

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        wait_until(lambda: store.last_batch("commits") is not None, what="the first batch")
        wait_until(lambda: commits_in_a_while() == 0, what="sleep")
        at = topics.send_half(b"lone", real)
        topics.send_half(b"silent", real)
        topics.send_op(at, "lone", COMMIT)
        sent_s = time.monotonic()
        wait_until(lambda: topics.bodies(real) == ["lone"], what="the final of a lone commit")
        assert time.monotonic() - sent_s < 15  # it sleeps for 20

        for words in (["doctor"], ["pending"], ["checkpoint", "inspect"]):
            own = ("--config", str(pipeline.folder / "checkback.toml"), "--output", "json")
            told = json.loads(printed_without(SPARK, *words, *own))
            if words == ["pending"]:
                assert [one["transaction_id"] for one in told["pending"]] == ["silent"]
            if words[0] == "checkpoint":
                assert (told["is_running"], told["problems"]) == (True, [])
        code, found = run_beside(settings, tmp_path, "checkpoint", "repartition", "3")
        assert "still runs" in str(found["error"])

        # Nobody sends anything, and the half is asked back when it is due.
        wait_until(lambda: len(topics.read(topics.names.check("g"))) == 1, what="a check request")
        (half,) = [one for one in topics.read(topics.names.half) if one.value() == b"silent"]
        (check,) = topics.read(topics.names.check("g"))
        assert check.timestamp()[1] - half.timestamp()[1] < (8 + 15) * 1_000
        assert pipeline.terminate() == 0

    code, found = run_beside(settings, tmp_path, "checkpoint", "verify")
    assert (code, found["is_whole"], found["is_running"]) == (0, True, False)
    code, found = run_beside(settings, tmp_path, "doctor")
    (pipeline_found,) = [one for one in found["checks"] if one["check"] == "pipeline"]
    assert (code, pipeline_found["result"]) == (0, "warning")
