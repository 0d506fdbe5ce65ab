"""Where the topics begin and end: what a rebuild reads, and where the new query continues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.read.list_offsets import COMMITTED, EARLIEST, listed_offsets
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END, next_record
from checkback.state import marks_of

TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets that a reader of committed records sees on one partition.

    Args:
        first: offset of the first record that is still there.
        end: offset after the last record that can be read.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicSpans:
    """The spans that a rebuild reads; the new query continues at the ends of halves and ops.

    Args:
        marks_from_ms: settled marks from before this time may be gone; 0 if none is.
    """

    spans: Mapping[str, Mapping[int, Span]]
    marks_from_ms: int

    def ends(self, topics: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the ends in the form of Spark's Kafka source."""
        return {
            topic: {str(number): span.end for number, span in sorted(self.spans[topic].items())}
            for topic in topics
        }


def find_spans(
    connection: Mapping[str, Any], names: TopicNames, partitions: Mapping[str, int]
) -> TopicSpans:
    """Return the present spans of the topics.

    Args:
        partitions: how many each topic has; the decided topic is read where it is among them.
    """
    admin = AdminClient({**connection})
    with_ends = [
        (topic, number)
        for topic in (*names.read, names.settled, names.refused, names.decided)
        if topic in partitions
        for number in range(partitions[topic])
    ]
    first = listed_offsets(admin, with_ends, EARLIEST)
    # Ends last: the new query reads whatever is appended after this.
    end = listed_offsets(admin, with_ends, isolation=COMMITTED)
    spans: dict[str, dict[int, Span]] = {}
    for topic, number in first:
        at = (topic, number)
        spans.setdefault(topic, {})[number] = Span(first[at], max(first[at], end[at]))
    return TopicSpans(spans, _marks_from_ms(connection, names.settled, spans[names.settled]))


def _marks_from_ms(connection: Mapping[str, Any], topic: str, spans: Mapping[int, Span]) -> int:
    """Return the time from which on every mark is kept; 0 if no mark was ever deleted."""
    cut = {number: span for number, span in spans.items() if span.first > 0}
    if not cut:
        return 0
    with closing(Consumer({**LOOKUP_CONSUMER, **REPORTS_END, **connection})) as consumer:
        return max(_first_mark_ms(consumer, topic, *one) for one in cut.items())


def _first_mark_ms(consumer: Consumer, topic: str, number: int, span: Span) -> int:
    if span.first >= span.end:
        return now_ms()
    consumer.assign([TopicPartition(topic, number, span.first)])
    while (message := next_record(consumer, topic, number, TIMEOUT_S)) is not None:
        marks = marks_of(message.key(), message.value())
        if marks is not None:
            # A claim marks nothing and has no batch time.
            return marks.now_ms or message.timestamp()[1]
    # Only the end markers of Kafka transactions are left, or what no job wrote.
    return now_ms()
