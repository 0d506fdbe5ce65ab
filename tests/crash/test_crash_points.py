"""Some twenty crashes by SIGKILL, one after the other over one checkpoint.

docs/guarantees.md says what each of them leaves behind.

Each case begins where the previous one ended, so the remains of earlier crashes are there, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.crash.cases import Case
from tests.crash.run import SINK_TRANSACTION_TIMEOUT_MS, CrashRun
from tests.integration.running import wait_until

from checkback.deploy.broker import EmbeddedBroker

# A start takes ten seconds, and a minute on a busy machine.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def run(
    mortal_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CrashRun]:
    folder = tmp_path_factory.mktemp("crash")
    with CrashRun(mortal_broker, folder, "crash-") as running:
        yield running


TRIED_AGAIN = [
    Case("mid-produce", "mid-produce", ("sink",), 1, records=3),
    Case("before-commit-task", "before commit", ("worker",), 0),
]
"""Spark repeats the task; no other process notices."""

TRIED_AGAIN_AT_NIGHT = [
    Case("the-input-is-read", "input read", ("worker",), 1),
    Case("a-page-decides", "decided", ("worker",), 0),
    Case("initialised", "initialised", ("sink",), 0),
    Case("marker-read", "marker read", ("sink",), 1),
    Case("begun", "begun", ("sink",), 0),
    Case("mid-produce-task", "mid-produce", ("worker",), 0, records=2),
    Case("flushed", "flushed", ("sink",), 0),
    Case("before-commit", "before commit", ("sink",), 1),
    Case("some-committed", "some committed", ("sink",), 0),
    Case("committed", "committed", ("sink",), 1),
    Case("committed-task", "committed", ("worker",), 0),
]
"""By day tests/simulation kills the sink and its task before and after each of its calls."""

BROKER_DIES = [
    Case("broker-and-sink-mid-produce", "mid-produce", ("broker", "sink"), 1, records=2),
    Case("broker-flushed", "flushed", ("broker",), 0),
    Case("broker-before-commit", "before commit", ("broker",), 0),
]

STARTED_AGAIN = [
    Case("planned", "planned", ("jvm",)),
    Case("some-committed-driver", "some committed", ("driver",), 1),
    Case("state-upload", "state upload", ("machine",), 1),
    Case("all-committed", "all committed", ("machine",)),
    Case("fencing", "fencing: before commit", ("machine",), 0),
]
"""The pipeline is started again over the same checkpoint: half a minute each. docs/guarantees.md
names the quicker tests of what they leave; by day tests/integration/test_ledger.py starts one."""


@pytest.mark.parametrize(
    "case",
    [*TRIED_AGAIN, *(pytest.param(one, marks=pytest.mark.nightly) for one in TRIED_AGAIN_AT_NIGHT)],
    ids=lambda case: case.name,
)
def test_a_task_that_dies_is_tried_again(run: CrashRun, case: Case) -> None:
    print(run.crash(case))


@pytest.mark.versions
@pytest.mark.nightly  # by day tests/simulation has brokers that do not answer
@pytest.mark.parametrize("case", BROKER_DIES, ids=lambda case: case.name)
def test_a_broker_that_dies_is_waited_for(run: CrashRun, case: Case) -> None:
    print(run.crash(case))


@pytest.mark.nightly
@pytest.mark.parametrize("case", STARTED_AGAIN, ids=lambda case: case.name)
def test_a_pipeline_that_dies_goes_on_where_it_was(run: CrashRun, case: Case) -> None:
    print(run.crash(case))


@pytest.mark.nightly  # by day tests/integration/test_fencing.py has one, without a job
def test_an_abandoned_transaction_holds_readers_up_no_longer_than_its_timeout(
    run: CrashRun,
) -> None:
    case = Case("machine-mid-produce", "mid-produce", ("machine",), 0, records=3)
    run.arm(case)
    run.wait_for_crash(case)
    began = time.monotonic()
    held_up = held_up_partitions(run)

    wait_until(lambda: not held_up_partitions(run), 60, "readers to go on")
    stalled_s = time.monotonic() - began
    print(f"held up {held_up} for {stalled_s:.1f} s")

    assert held_up, "nobody was held up: no transaction was open"
    # The broker's clock began with the transaction, before the crash; it looks every 0.5 s.
    assert stalled_s < SINK_TRANSACTION_TIMEOUT_MS / 1_000 + 3

    run.heal(case)
    run.wait_until_final(set(run.application.snapshot()[0]))
    run.require_sound()


def test_after_all_these_crashes_every_committed_half_is_final_once(run: CrashRun) -> None:
    run.finish()


def held_up_partitions(run: CrashRun) -> list[tuple[str, int]]:
    """Return the partitions on which an open transaction stops read_committed consumers."""
    stable, high = (_ends(run, isolation) for isolation in ("read_committed", "read_uncommitted"))
    return [one for one in stable if stable[one] < high[one]]


def _ends(run: CrashRun, isolation: str) -> dict[tuple[str, int], int]:
    """Return by partition how far a consumer with this isolation level can read."""
    consumer = Consumer(
        {
            "bootstrap.servers": run.broker.bootstrap_servers,
            "group.id": "stall",
            "isolation.level": isolation,
        }
    )
    try:
        return {
            one: consumer.get_watermark_offsets(TopicPartition(*one), 10)[1]
            for one in run.application.watched
        }
    finally:
        consumer.close()
