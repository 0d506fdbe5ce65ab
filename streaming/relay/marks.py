"""Reads the newest marks of relays in front of given offsets of the decided topic.

A mark says how far a relay has come. Each transaction of a relay ends with one. So only the last
records before an offset are read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from checkback.protocol.decided import PartitionNote, RelayMark, partition_note
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END
from checkback.sinks.records.source_record import readable_headers

LAST_RECORDS: Final = 32
"""How far before an offset a mark is looked for. On a quiet topic, only the end of its Kafka
transaction follows it."""
LOOK_S: Final = 5.0


@dataclass(slots=True)
class MarkReader:
    """Finds the newest mark in front of given offsets of the decided topic.

    Args:
        connection: librdkafka's settings for the connection.
        topic: the decided topic.
    """

    connection: Mapping[str, Any]
    topic: str
    _consumer: Consumer | None = None

    def newest(self, ends: Mapping[int, int]) -> dict[int, RelayMark]:
        """Return by partition the newest mark among the last records before an offset.

        A partition is left out if the brokers do not answer in time.
        """
        notes = self._notes({at: end for at, end in ends.items() if end > 0})
        return {at: note for at, note in notes if isinstance(note, RelayMark)}

    def _notes(self, ends: dict[int, int]) -> list[tuple[int, PartitionNote]]:
        if not ends:
            return []
        if self._consumer is None:
            self._consumer = Consumer({**LOOKUP_CONSUMER, **REPORTS_END, **self.connection})
        starts = ((at, max(0, end - LAST_RECORDS)) for at, end in ends.items())
        self._consumer.assign([TopicPartition(self.topic, at, start) for at, start in starts])
        found, left, until_s = [], dict(ends), time.monotonic() + LOOK_S
        while left and time.monotonic() < until_s:
            record = self._consumer.poll(0.1)
            if record is None:
                continue
            at, error, offset = record.partition() or 0, record.error(), record.offset() or 0
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    left.pop(at, None)
                continue
            if offset >= left.get(at, 0):
                left.pop(at, None)
                continue
            note = partition_note(readable_headers(record), record.value())
            if note is not None:
                found.append((at, note))
            if offset + 1 >= left[at]:
                del left[at]
        self._consumer.unassign()
        return found
