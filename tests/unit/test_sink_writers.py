"""What a sink process keeps: between two batches its consumers ask the brokers for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.deciding import message

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.read import record_reader as lookup
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.sinks.settings import SinkSettings


class Assigned:
    """A consumer of a topic with a record at every offset, that knows what it is to read."""

    def __init__(self, _: dict[str, Any]) -> None:
        self.at: int | None = None
        self.seeks = 0

    def assign(self, partitions: list[Any]) -> None:
        self.at, self.seeks = partitions[0].offset, self.seeks + 1

    def unassign(self) -> None:
        self.at = None

    def poll(self, _: float) -> Any:
        return message(topic="t", partition=0, offset=self.at, value=b"x", timestamp=(1, 1))

    def consume(self, *_: object) -> list[Any]:
        return []


def test_a_reader_at_rest_has_no_partition_and_seeks_when_it_reads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Assigned({})
    monkeypatch.setattr(lookup, "Consumer", lambda _: consumer)
    reader = RecordReader({}, "t")
    wanted = np.array([7])

    first = [offset for offset, _ in reader.read(0, wanted)]
    before = consumer.at
    reader.rest()
    rested = consumer.at
    second = [offset for offset, record in reader.read(0, wanted + 1) if record is not None]

    assert (first, before, rested, second) == ([7], 7, None, [8])
    assert consumer.seeks == 2


class Resting:
    """In place of a reader: counts its rests."""

    rests = 0

    def rest(self) -> None:
        self.rests += 1


@pytest.mark.parametrize("fails", [False, True])
def test_after_a_batch_all_readers_rest(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    readers: list[Any] = [Resting(), Resting()]
    writers = Writers(_readers={("q", "half"): readers[0]}, _forwarders={"q": readers[1]})

    def write(*_: object) -> None:
        if fails:
            raise BrokerError("Silence.", remedy="Wait.")

    monkeypatch.setattr(Writers, "_write", write)
    request = WriteRequest(SinkSettings.__new__(SinkSettings), 0, 1, [])
    if fails:
        with pytest.raises(BrokerError):
            writers.write(request)
    else:
        writers.write(request)

    assert [one.rests for one in readers] == [1, 1]
