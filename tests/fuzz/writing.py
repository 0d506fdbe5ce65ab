"""Writes records as they are, whatever their headers' names, and learns where they stand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaProducer
from tests.fuzz.records import Place, Record
from tests.integration.bad_records import RawName
from tests.integration.running import Topics

Stored = Callable[[Record, int], None]
"""StepSpan of each record that is stored, with its offset."""
RAW = "raw"


def writer_of(record: Record) -> str:
    """Return which producer writes a record: the one of its compression, or the one for names."""
    return RAW if record.is_raw else record.compression


class Writer:
    """One producer per compression, and one in Python for names that clients in C do not write.

    Args:
        topics: where records go.
        stored: told of each record, and of its offset.
    """

    def __init__(self, topics: Topics, stored: Stored) -> None:
        self.connection = topics.connection
        self.stored = stored
        names = topics.names
        self.topics = {
            Place.HALF: names.half,
            Place.OP: names.op,
            Place.FEEDBACK: names.feedback,
            Place.SETTLED: names.settled,
            Place.STATUS: names.status,
            Place.CHECK: names.check("wild"),
        }
        self._raw = KafkaProducer(
            bootstrap_servers=topics.bootstrap_servers, acks="all", linger_ms=5
        )
        self._producers: dict[str, Producer] = {}
        self._failed: list[str] = []

    def close(self) -> None:
        self._raw.close()

    def write(self, records: Iterable[Record]) -> None:
        """Store the records, those of one producer after those of another; wait for all."""
        in_order = sorted(records, key=writer_of)
        for name, group in itertools.groupby(in_order, writer_of):
            if name == RAW:
                self._write_raw(list(group))
            else:
                self._write_plain(self._producer(name), group)
        assert not self._failed, self._failed[:3]

    def _producer(self, compression: str) -> Producer:
        if compression not in self._producers:
            self._producers[compression] = Producer(
                {
                    **self.connection,
                    "compression.type": compression,
                    "enable.idempotence": True,
                    "message.max.bytes": 400_000_000,
                    "linger.ms": 5,
                }
            )
        return self._producers[compression]

    def _write_plain(self, producer: Producer, records: Iterable[Record]) -> None:
        for record in records:
            headers: Any = [(name.decode(), value) for name, value in record.headers]

            def told(error: Any, message: Any, record: Record = record) -> None:
                if error is not None:
                    self._failed.append(f"{record.kind}: {error.str()}")
                else:
                    self.stored(record, message.offset())

            producer.produce(
                self.topics[record.place],
                record.value,
                record.key,
                record.partition,
                on_delivery=told,
                timestamp=record.timestamp_ms,
                headers=headers,
            )
        producer.flush(60)

    def _write_raw(self, records: list[Record]) -> None:
        sent = [self._send_raw(record) for record in records]
        self._raw.flush()
        for record, future in zip(records, sent, strict=True):
            self.stored(record, future.get(60).offset)

    def _send_raw(self, record: Record) -> Any:
        # This client writes no null value. Who reads one takes it for an empty value.
        headers = [
            (RawName(name.decode("latin-1")), value or b"") for name, value in record.headers
        ]
        return self._raw.send(
            self.topics[record.place],
            record.value,
            record.key,
            headers=headers,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms or None,
        )
