"""A commit that was sent twice: its first request may come late, and must commit nothing else.

The first transaction protocol does not tell one transaction of a producer's epoch from the next
(KIP-890). So a producer whose commit took long writes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fakes.kafka import Awaits, Clock, Cluster, Fault, SimulatedCrash
from tests.unit.sink_stage import BARE, finals, request, staged

from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.process.writer_pool import Writers


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


def test_the_next_batch_is_not_committed_half_way(cluster: Cluster) -> None:
    settings, writers = begin_epoch(BARE, 1, (), 0), Writers()
    assert isinstance(cluster.awaits, SentTwice)
    cluster.awaits.is_due = True
    writers.write(request(settings, 0, 0))
    with pytest.raises(SimulatedCrash):
        writers.write(request(settings, 1, 1))

    cluster.sleep(5_000)  # the first request of the first commit arrives

    assert finals(cluster) == [b"0"]
