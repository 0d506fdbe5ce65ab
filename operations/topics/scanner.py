"""Reads committed records of topics, from a point in time to the present end.

A scan joins no consumer group and commits no offset, so it disturbs no other reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.operations.topics.position import Position
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import Headers, text_value
from checkback.sinks.kafka.cluster.transient_errors import is_transient, listed_topics, said_by
from checkback.sinks.kafka.read.errors import require_passing
from checkback.sinks.kafka.read.list_offsets import COMMITTED, EARLIEST, listed_offsets
from checkback.sinks.kafka.read.poll import polled
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER
from checkback.sinks.records.source_record import PlacedRecord, readable

POLL_S: Final = 1.0
SILENCE_POLLS_MAX: Final = 30
TIMEOUT_S: Final = 20.0
CLOCK_MARGIN_MS: Final = 600_000
"""A search for records with a producer's timestamp begins this much earlier, because clocks
differ."""

Advance = Callable[[str, int, int], None]
"""Called during a scan with the topic, the number of offsets done, and the number of all."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record, independent of the connection that it came over.

    Args:
        headers: its headers, a null value read as empty.
    """

    topic: str
    at: Position
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def text(self, name: str) -> str:
        """Return a header's text, "" if there is none."""
        return text_value(self.headers, name) or ""

    @classmethod
    def of(cls, found: PlacedRecord) -> FoundRecord:
        """Return what the message holds; none of its headers, if they can't be read."""
        message = readable(found)
        at = Position(message.partition() or 0, message.offset() or 0)
        headers = [(name, value or b"") for name, value in message.headers() or []]
        time_ms = message.timestamp()[1]
        return cls(message.topic() or "", at, time_ms, message.key(), message.value(), headers)


Wanted = Callable[[Message], bool]


def everything(_: Message) -> bool:
    """Accept every record."""
    return True


class TopicScanner:
    """Reads topics of one cluster, one scan at a time."""

    def __init__(self, connection: dict[str, Any], advance: Advance = lambda *_: None) -> None:
        self._consumer = Consumer({**LOOKUP_CONSUMER, **connection, "enable.partition.eof": True})
        # A client that never makes a topic by asking for it.
        self._admin = AdminClient(connection)
        self._advance = advance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def partitions(self, topic: str, *, may_be_hidden: bool = False) -> list[int]:
        """Return the numbers of a topic's partitions; none if the topic does not exist.

        With `may_be_hidden` also none for a topic that this user may not see.

        Raises:
            BrokerError: the brokers do not answer, or do not say whether it exists.
        """
        found = listed_topics(self._consumer, TIMEOUT_S).get(topic)
        if found is None and not may_be_hidden:
            self._require_told(topic)
        return [] if found is None else sorted(found.partitions)

    def scan(
        self,
        topic: str,
        wanted: Wanted = everything,
        *,
        partitions: Iterable[int] | None = None,
        from_ms: int | None = None,
        newest: int | None = None,
        may_be_hidden: bool = False,
    ) -> Iterator[FoundRecord]:
        """Yield the wanted records up to the present ends of the partitions.

        Args:
            topic: the topic; one that does not exist yields nothing.
            wanted: returns whether a record is wanted; called often, so it should be quick.
            from_ms: begin at the first record with this timestamp or a later one.
            newest: read at most this number of offsets of each partition, the last ones.
            may_be_hidden: as in `partitions`.
        """
        numbers = self.partitions(topic, may_be_hidden=may_be_hidden)
        if partitions is not None:
            numbers = [one for one in numbers if one in set(partitions)]
        spans = self._spans(topic, numbers, from_ms)
        if newest is not None:
            spans = {one: (max(first, end - newest), end) for one, (first, end) in spans.items()}
        if spans:
            yield from self._read(topic, spans, wanted)

    def ends(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return the present end of each partition; `follow` begins there."""
        places = [(topic, number) for topic in topics for number in self.partitions(topic)]
        ends = listed_offsets(self._admin, places, isolation=COMMITTED)
        return [TopicPartition(*place, end) for place, end in ends.items()]

    def follow(
        self, starts: list[TopicPartition], is_over: Callable[[], bool]
    ) -> Iterator[FoundRecord]:
        """Yield every record after the positions that `ends` returned, until `is_over` says so."""
        self._consumer.assign(starts)
        while not is_over():
            for message in self._consume(0.2):
                if message.error() is None:
                    yield FoundRecord.of(message)

    def _require_told(self, topic: str) -> None:
        """Refuse a topic that is not in the list because this user may not see it.

        If the command treated it as a topic that does not exist, its records would be missing: a
        verdict, for example.
        """
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)
        with suppress(TimeoutError):
            failed = asked[topic].exception(2 * TIMEOUT_S)
            denied = {KafkaError.TOPIC_AUTHORIZATION_FAILED}
            if isinstance(failed, KafkaException) and is_transient(failed, denied):
                raise BrokerError(
                    f"{topic} can't be read: {said_by(failed)}.",
                    remedy="`checkback acl grants --operators` prints what operators need.",
                    topic=topic,
                ) from failed

    def _spans(
        self, topic: str, numbers: list[int], from_ms: int | None
    ) -> dict[int, tuple[int, int]]:
        """Return by partition the first offset to read and the end, for partitions with records."""
        places = [(topic, number) for number in numbers]
        since = EARLIEST if from_ms is None else OffsetSpec.for_timestamp(max(0, from_ms))
        first = listed_offsets(self._admin, places, since)
        end = listed_offsets(self._admin, places, isolation=COMMITTED)
        # A negative offset means that no record has so late a timestamp.
        return {
            place[1]: (offset, end[place])
            for place, offset in first.items()
            if 0 <= offset < end[place]
        }

    def _read(
        self, topic: str, spans: dict[int, tuple[int, int]], wanted: Wanted
    ) -> Iterator[FoundRecord]:
        at = {number: first for number, (first, _) in spans.items()}
        self._consumer.assign([TopicPartition(topic, *place) for place in at.items()])
        total, behind, silent = sum(end - first for first, end in spans.values()), 0, 0
        while behind < total:
            messages = self._consume(POLL_S)
            silent = 0 if messages else silent + 1
            if silent == SILENCE_POLLS_MAX:
                raise BrokerError(
                    f"{topic} returned nothing for {SILENCE_POLLS_MAX * POLL_S:.0f} s.",
                    remedy="Check that the brokers are up.",
                    topic=topic,
                )
            for message in messages:
                number, offset = message.partition() or 0, message.offset() or 0
                is_record, end = message.error() is None, spans[number][1]
                # A read_committed reader's end may be before the end that was first reported,
                # never after it.
                at[number] = min(end, offset + 1) if is_record else end
                if is_record and offset < end and wanted(message):
                    yield FoundRecord.of(message)
            behind = sum(at[number] - first for number, (first, _) in spans.items())
            self._advance(topic, behind, total)

    def _consume(self, timeout_s: float) -> list[Message]:
        """Return records and end-of-partition events, without errors that pass by themselves."""
        messages = polled(self._consumer, timeout_s)
        for message in messages:
            error = message.error()
            if error is not None:
                require_passing(error, message.topic(), message.partition())
        return [one for one in messages if one.error() is None or _is_end(one.error())]


def _is_end(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError._PARTITION_EOF
