"""Transactions that brokers end, or do not: the records are good, and there is no other job."""

from __future__ import annotations

from collections.abc import Iterator

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

    def before(self, call: str) -> Fault | None:
        return Fault.HANGS if self.is_silent and call == "init_transactions" else None


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with staged(SilentCoordinator()) as made:
        yield made


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
