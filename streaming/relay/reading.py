"""Reads the marks of relays for the terms of each batch (docs/decisions/relay.md).

A mark says how far a relay has come. Each transaction of a relay ends with one. So only the last
records before the end of a batch are read. Where a limit has cut the batch between two marks, the
earlier mark counts, which is always safe: floors and times only grow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from checkback.checkpoints.own_files.relay_terms import RelaySpan, RelayTerms, Spans
from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.decided import (
    PartitionNote,
    RelayMark,
    partition_note,
)
from checkback.protocol.errors import FencedError
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END
from checkback.sinks.records.source_record import readable_headers

LAST_RECORDS: Final = 32
"""How far before the end of a batch a mark is looked for. On a quiet topic, only the end of its
Kafka transaction follows it."""
MARK_STEP_MS: Final = 1_000
"""The checkpoint gets a note only for a mark that is younger by this."""
LOOK_S: Final = 5.0
Marks = Mapping[int, RelayMark]


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

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

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


@dataclass(slots=True)
class RelayReading:
    """Makes the relay terms of each batch: which ops relays take, and what their marks say.

    Args:
        topics: the names of the topics.
        spans: the spans of ops that relays take and took, as the start of the job left them.
        newest_marks: returns the newest mark of each partition in front of an offset.
    """

    topics: TopicNames
    spans: Spans
    newest_marks: Callable[[Mapping[int, int]], Marks]
    _marks_read_to: dict[int, int] = field(default_factory=dict, init=False)

    def of_batch(self, ends: Offsets, last: Mapping[int, RelayTerms]) -> dict[int, RelayTerms]:
        """Return the terms of a batch by half partition.

        Args:
            ends: the ends of its plan.
            last: the terms of the batch before it.
        """
        read = ends.get(self.topics.decided, {})
        new = {
            at: read[at]
            for at in self._relayed(ends) & read.keys()
            if read[at] != self._marks_read_to.get(at)
        }
        self._marks_read_to.update(new)
        return self.next_terms(ends, last, self.newest_marks(new) if new else {})

    def next_terms(
        self, ends: Offsets, last: Mapping[int, RelayTerms], marks: Marks
    ) -> dict[int, RelayTerms]:
        """Return the terms of a batch by half partition, given the marks that it has read.

        Raises:
            FencedError: a replaced job planned ops that the job may not take yet.
        """
        ops, read = (ends.get(name, {}) for name in (self.topics.op, self.topics.decided))
        for at, spans in self.spans.items():
            if spans[-1].is_ahead(ops.get(at, 0), read.get(at, 0)):
                raise FencedError("Another job has planned this batch.")
        relayed = self._relayed(ends)
        return {
            at: _next_terms(spans, last.get(at), marks.get(at))
            if at in relayed
            else RelayTerms(spans)
            for at, spans in self.spans.items()
        }

    def _relayed(self, ends: Offsets) -> set[int]:
        read = ends.get(self.topics.decided, {})
        return {at for at, spans in self.spans.items() if not spans[-1].is_read(read.get(at, 0))}

    def judged(self, ends: Offsets, relay: Mapping[int, RelayTerms]) -> Offsets:
        """Return the ends of what the job itself reads, without what relays read for it."""
        relayed = {at for at, terms in relay.items() if terms.is_relayed}
        without = {topic: parts for topic, parts in ends.items() if topic != self.topics.decided}
        ops = without.get(self.topics.op)
        if ops is not None:
            without[self.topics.op] = {at: end for at, end in ops.items() if at not in relayed}
        return without


def _next_terms(
    spans: tuple[RelaySpan, ...], last: RelayTerms | None, mark: RelayMark | None
) -> RelayTerms:
    """Return the terms of a partition with ops that relays take.

    Before the first mark, no half that relays may deliver is discarded, and no time is known.
    """
    span = spans[-1]
    terms = RelayTerms(spans, span.halves_from)
    if last is not None and last.is_relayed and _is_same(last.spans, spans):
        terms = replace(last, spans=spans)
    floor, until_ms = terms.floor, terms.read_until_ms
    is_of_span = mark is not None and mark.halves_from == span.halves_from
    if mark is None or not is_of_span or floor is None:
        return terms
    if until_ms is not None and mark.read_until_ms < until_ms + MARK_STEP_MS:
        return terms
    return replace(
        terms, floor=max(floor, mark.floor), read_until_ms=mark.read_until_ms or until_ms
    )


def _is_same(before: tuple[RelaySpan, ...], now: tuple[RelaySpan, ...]) -> bool:
    begin = [(span.ops_from, span.halves_from) for span in now]
    return [(span.ops_from, span.halves_from) for span in before] == begin
