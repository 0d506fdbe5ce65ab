"""A commit that was sent twice: its first request may come late, and must commit nothing else.

The first transaction protocol does not tell one transaction of a producer's epoch from the next
(KIP-890). So a producer whose commit took long writes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.deciding import page_outcome
from tests.fakes.kafka import Awaits, Clock, Cluster, Fault, SimulatedCrash, installed
from tests.unit.test_touched_markers import BARE, NAMES, finals

from checkback.protocol.records import half_headers
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.sinks.settings import SinkSettings
from checkback.state import Action

HALVES = 4


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
    made = Cluster(SentTwice())
    for name in (NAMES.half, NAMES.op, NAMES.refused, NAMES.settled, "orders"):
        made.create_topic(name, 1)
    for number in range(HALVES):
        headers = half_headers(
            producer_group="g", transaction_id=f"{number}", real_topic="orders", properties={}
        )
        made.write(NAMES.half, 0, None, b"%d" % number, headers)
    with installed(made):
        yield made


def begin(cluster: Cluster, settings: SinkSettings) -> SinkSettings:
    begun = begin_epoch(settings, 1, (), 0)
    assert isinstance(cluster.awaits, SentTwice)
    cluster.awaits.is_due = True
    return begun


def request(settings: SinkSettings, batch: int, *numbers: int) -> WriteRequest:
    decided = page_outcome(0, *((Action.COMMIT, number, 0, number) for number in numbers))
    return WriteRequest(settings, 0, batch, 0, [decided.pack()])


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
        Writers().write(request(settings, 0, 0, 1, 2, 3))

    cluster.sleep(5_000)

    assert finals(cluster) == [b"0", b"1"]
