"""A commit that was sent twice: its first request may come late, and must commit nothing else.

The first transaction protocol does not tell one transaction of a producer's epoch from the next
(KIP-890). So a producer whose commit took long writes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.fakes.kafka import Awaits, Clock, Cluster, Fault, SimulatedCrash
from tests.unit.sink_stage import BARE, finals, request, staged, write

from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.process.writer_pool import Writers
from checkback.sinks.settings import SinkSettings


class SentTwice(Awaits):
    """The next commit is sent twice, and the process dies once it has sent other records."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.is_due = False
        self.flushes_left = 1_000

    def before(self, call: str) -> Fault | None:
        if call == "commit_transaction" and self.is_due:
            self.is_due, self.flushes_left = False, 1
            return Fault.TWICE
        return None

    def after(self, call: str) -> None:
        self.flushes_left -= call == "flush"
        if not self.flushes_left:
            raise SimulatedCrash

    def request_delay_ms(self) -> float:
        return 3_000.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with staged(SentTwice()) as made:
        yield made


def begin(cluster: Cluster, settings: SinkSettings) -> SinkSettings:
    begun = begin_epoch(settings, 1, (), 0)
    assert isinstance(cluster.awaits, SentTwice)
    cluster.awaits.is_due = True
    return begun


def test_the_next_batch_is_not_committed_half_way(cluster: Cluster) -> None:
    settings, writers = begin(cluster, BARE), Writers()
    writers.write(request(settings, 0, 0))
    with pytest.raises(SimulatedCrash):
        writers.write(request(settings, 1, 1))

    cluster.sleep(5_000)  # the first request of the first commit arrives

    assert finals(cluster) == [b"0"]


def test_the_next_part_of_a_batch_is_not_committed_half_way(cluster: Cluster) -> None:
    settings = begin(cluster, replace(BARE, transaction_rows_max=2))
    with pytest.raises(SimulatedCrash):
        write(settings, 0, 0, 1, 2, 3)

    cluster.sleep(5_000)

    assert finals(cluster) == [b"0", b"1"]
