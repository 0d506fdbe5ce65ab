"""Queues records in librdkafka; waits while its queue is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Producer

from checkback.sinks.records.sink_record import SinkRecord

ROOM_S: Final = 0.1
"""How long one look for room in the queue takes."""


def queue(
    producer: Producer,
    record: SinkRecord,
    on_delivery: Any = None,
    make_room: Callable[[], object] | None = None,
) -> None:
    """Queue a record.

    Args:
        producer: what sends it.
        record: what is sent.
        on_delivery: takes the record's report; None for the producer's own.
        make_room: waits a moment for room in the queue; by default it takes reports.

    Raises:
        KafkaException, ValueError, TypeError, OverflowError: librdkafka does not take it.
    """
    headers: Any = record.headers  # sent_headers would take longer
    while True:
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=on_delivery,
                headers=headers,
                timestamp=record.timestamp_ms,
            )
        except BufferError:
            (make_room or (lambda: producer.poll(ROOM_S)))()
        else:
            return
