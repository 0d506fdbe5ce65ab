"""Transactions that brokers end, or do not: the records are good, and there is no other job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest
from confluent_kafka import KafkaError
from tests.fakes.kafka import Awaits, Clock, Cluster, Fault, producer
from tests.unit.sink_stage import BARE, NAMES, finals, staged, write

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.kafka.transaction.errors import ABORTED_CODES


class SilentCoordinator(Awaits):
    """From the moment that is asked for on, nobody takes a transactional id over."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.is_silent = False
        self.not_taken = {"send_offsets": 0, "commit_transaction": 0}

    def before(self, call: str) -> Fault | None:
        if self.not_taken.get(call):
            self.not_taken[call] -= 1
            return Fault.HANGS
        return Fault.HANGS if self.is_silent and call == "init_transactions" else None


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with staged(SilentCoordinator()) as made:
        yield made


@pytest.mark.parametrize(
    ("call", "times", "least_s", "most_s"),
    [
        ("send_offsets", 1, 10, 20), ("send_offsets", 2, 70, 90),
        ("commit_transaction", 2, 10, 15), ("commit_transaction", 3, 15, 20),
        ("commit_transaction", 4, 75, 90),
    ],
)  # fmt: skip
def test_a_marker_or_commit_that_is_not_taken_is_given_up_soon_and_the_next_one_waited_for(
    cluster: Cluster, call: str, times: int, least_s: int, most_s: int
) -> None:
    """A broker that had stopped for 14 s held a batch up for a minute more."""
    settings = replace(begin_epoch(BARE, 1, (), 0), transaction_timeout_ms=60_000)
    awaits, began_ms = cast("SilentCoordinator", cluster.awaits), cluster.clock.now_ms
    awaits.not_taken[call] = times

    write(settings, 0, 0)

    assert finals(cluster) == [b"0"]
    assert least_s * 1_000 <= cluster.clock.now_ms - began_ms < most_s * 1_000


@pytest.mark.parametrize("code", sorted(ABORTED_CODES), ids=lambda code: KafkaError(code).name())
def test_a_batch_whose_transaction_was_ended_is_written_by_the_next_producer(
    cluster: Cluster, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    codes = [code]
    monkeypatch.setattr(producer, "_rejection", lambda *_: codes.pop() if codes else None)

    write(settings, 0, 0)

    assert not codes
    assert finals(cluster) == [b"0"]
    assert cluster.topics[NAMES.refused].partitions[0].end == 0


def test_a_coordinator_that_stays_silent_is_no_other_job(cluster: Cluster) -> None:
    settings = begin_epoch(BARE, 1, (), 0)
    assert isinstance(cluster.awaits, SilentCoordinator)
    cluster.awaits.is_silent = True

    with pytest.raises(BrokerError, match="no answer") as ended:
        write(settings, 0, 0)

    assert ended.value.exit_code == 3
    assert finals(cluster) == []


def test_a_start_waits_for_a_silent_coordinator_for_minutes_only(cluster: Cluster) -> None:
    assert isinstance(cluster.awaits, SilentCoordinator)
    cluster.awaits.is_silent = True
    began_ms = cluster.clock.now_ms

    with pytest.raises(BrokerError, match="no answer") as ended:
        begin_epoch(BARE, 1, (), 0)

    assert ended.value.exit_code == 3
    assert cluster.clock.now_ms - began_ms <= 200_000
