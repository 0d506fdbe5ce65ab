"""Job and relay together, as users run them: processes over a real broker, killed on the way."""

from __future__ import annotations

import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.relay.relaying import RelayStage, relay_stage, started_relay
from tests.integration.running import COMMIT, ROLLBACK, Pipeline, Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.operations.doctor.broker_checks import BrokerChecks
from checkback.operations.doctor.judgements import judge_relays
from checkback.protocol.decided import OpKind
from checkback.testing.topics import create_plain_topics

D, P = OpKind.DELIVERED, OpKind.PASSED


def send(stage: RelayStage, names: list[str], pause_s: float = 0.02) -> None:
    """Commit transactions of these names, on all partitions, with keys."""
    for at, name in enumerate(names):
        partition = at % stage.settings.half_partitions
        stage.commit(name, partition, b"k%d" % (at % 5))
        time.sleep(pause_s)


def numbered(name: str, count: int) -> list[str]:
    return [f"{name} {at:03}" for at in range(count)]


def wait_for_finals(stage: RelayStage, wanted: list[str]) -> None:
    """Wait until these messages are visible, each once and no others."""
    found: list[str] = []

    def are_there() -> bool:
        found[:] = stage.finals()
        return found == wanted

    try:
        wait_until(are_there, 120.0)
    except AssertionError:
        assert found == wanted, Counter(stage.kinds())


def test_what_the_relay_passes_is_the_job_s(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    given = {"checkpoint": str(tmp_path / "checkpoint"), "check_max": 2}
    with relay_stage(topics, order="key", **given) as stage:
        create_plain_topics(stage.settings, [topics.names.check("g")], partitions=1)
        with shared_jvm.pipeline(stage.settings, tmp_path) as pipeline:
            pipeline.wait_for("started")
            relay = started_relay(stage, 0)
            seen = [one for one in BrokerChecks(stage.settings).findings() if one.check == "relay"]
            assert seen == [judge_relays(1)]
            wanted = numbered("commit", 60)
            send(stage, wanted)
            rolled_back, silent = stage.half("rolled back"), stage.half("silent")
            topics.send_op(rolled_back, "rolled back", ROLLBACK)
            topics.send_op((0, silent[1] + 1), "early", COMMIT)
            wait_until(lambda: OpKind.EARLY in stage.kinds(), what="an op before its half")
            assert topics.send_half(b"early", stage.real) == (0, silent[1] + 1)
            wait_for_finals(stage, wanted)
            early, never = topics.names.discarded, ["early", "silent"]
            wait_until(lambda: topics.bodies(early) == never, what=f"discards {pipeline.drain()}")
            kinds = stage.kinds()
            # A half that the job did not know to be delivered would be asked about.
            assert set(topics.bodies(topics.names.check("g"))) == {"early", "silent"}
            assert topics.reasons() == ["OP_WITHOUT_HALF"]
            relay.send_signal(signal.SIGTERM)
            assert relay.wait(20) == 0
            assert pipeline.terminate() == 0
        assert kinds.count(D) > 20
        assert stage.finals() == wanted


def test_both_are_killed_and_nothing_is_lost_or_doubled(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    given = {"checkpoint": str(tmp_path / "checkpoint"), "transaction_timeout_ms": 600_000}
    with relay_stage(topics, **given) as stage:
        with Pipeline(stage.settings, tmp_path) as pipeline:
            pipeline.wait_for("started")
            relays = [started_relay(stage, 0), started_relay(stage, 1)]
            wanted = numbered("one", 40)
            send(stage, wanted)
            relays[0].kill()
            send(stage, more := numbered("two", 40))
            pipeline.kill()
        send(stage, later := numbered("three", 40))
        relays[0] = started_relay(stage, 0)
        with shared_jvm.pipeline(stage.settings, tmp_path / "again") as pipeline:
            send(stage, last := numbered("four", 40))
            wanted = sorted([*wanted, *more, *later, *last])
            wait_for_finals(stage, wanted)
            for relay in relays:
                relay.kill()
                relay.wait()
            pipeline.wait_for("started")
            assert pipeline.terminate() == 0
        assert topics.reasons() == []


@pytest.mark.nightly  # five starts; by day test_relay_switch.py has one switch of each kind
def test_a_relay_is_switched_off_and_on_again(topics: Topics, tmp_path: Path) -> None:
    given = {"checkpoint": str(tmp_path / "checkpoint"), "transaction_timeout_ms": 600_000}
    with relay_stage(topics, **given) as stage:
        wanted: list[str] = []
        for turn, is_on in enumerate([False, True, False, True]):
            open_half = stage.half(f"open {turn}")
            settings = replace(stage.settings, relay=is_on)
            with Pipeline(settings, tmp_path / str(turn)) as pipeline:
                pipeline.wait_for("started")  # a relay that came first would read CLOSED, and end
                relay = started_relay(stage, 0) if is_on else None
                names = numbered(f"turn {turn}", 20)
                send(stage, names)
                topics.send_op(open_half, f"open {turn}", COMMIT)
                wanted = sorted([*wanted, *names, f"open {turn}"])
                wait_for_finals(stage, wanted)
                send(stage, left := numbered(f"left {turn}", 6), 0.0)
                if relay is not None:
                    relay.send_signal(signal.SIGTERM)
                    relay.wait(20)
                pipeline.kill()
                wanted = sorted([*wanted, *left])
        with Pipeline(replace(stage.settings, relay=False), tmp_path / "last") as pipeline:
            wait_for_finals(stage, wanted)
            pipeline.wait_for("started")
            assert pipeline.terminate() == 0
        assert topics.reasons() == []
