"""A record waits for room in librdkafka's queue, and is queued once."""

from __future__ import annotations

from typing import Any

import pytest

from checkback.sinks.kafka.transaction.queueing import queue
from checkback.sinks.records.sink_record import NOW, SinkRecord

RECORD = SinkRecord("paid", 1, b"k", b"v", [("TAGS", b"t")], NOW)


class FullProducer:
    """Has room after a number of looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.queued: list[tuple[Any, ...]] = []

    def poll(self, _wait_s: float) -> None:
        self.looks -= 1

    def produce(self, *place: Any, **rest: Any) -> None:
        if self.looks:
            raise BufferError
        self.queued.append((*place, rest["headers"], rest["timestamp"]))


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_a_record_waits_for_room(looks: int) -> None:
    producer: Any = FullProducer(looks)
    queue(producer, RECORD)

    assert producer.queued == [("paid", b"v", b"k", 1, [("TAGS", b"t")], 0)]


def test_the_caller_may_wait_in_its_own_way_and_give_up() -> None:
    def refuse() -> None:
        raise TimeoutError

    producer: Any = FullProducer(1)
    with pytest.raises(TimeoutError):
        queue(producer, RECORD, make_room=refuse)
    assert producer.queued == []
