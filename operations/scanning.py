"""Reading topics as a bystander: from a point in time to their present end, committed records only.

Nothing is joined and nothing committed, so a scan disturbs no one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from checkback.operations.positions import Position
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import Headers, text_value
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.lookup import LOOKUP_CONSUMER

POLL_S: Final = 1.0
SILENCE_POLLS_MAX: Final = 30
TIMEOUT_S: Final = 20.0
MESSAGES_MAX: Final = 1_000
CLOCK_MARGIN_MS: Final = 600_000
"""Records that a producer time-stamped are looked for this much earlier: clocks differ."""

Advance = Callable[[str, int, int], None]
"""Told while a scan goes on: the topic, how many offsets are behind, how many there are."""


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record, with the connection that it came over gone.

    Args:
        topic: where it stands.
        at: where on the topic.
        time_ms: its timestamp, milliseconds since 1970.
        key: None where it has none.
        value: None where it has none.
        headers: a null value read as empty.
    """

    topic: str
    at: Position
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def text(self, name: str) -> str:
        """Return a header's text, "" where there is none."""
        return text_value(self.headers, name) or ""

    @classmethod
    def of(cls, message: Message) -> FoundRecord:
        """Return what the message holds."""
        at = Position(message.partition() or 0, message.offset() or 0)
        headers = [(name, value or b"") for name, value in message.headers() or []]
        time_ms = message.timestamp()[1]
        return cls(message.topic() or "", at, time_ms, message.key(), message.value(), headers)


Wanted = Callable[[Message], bool]


def everything(_: Message) -> bool:
    """Want every record."""
    return True


class TopicScanner:
    """Reads topics of one cluster, one scan at a time.

    Args:
        connection: librdkafka settings that reach the brokers.
        advance: told how a scan goes on.
    """

    def __init__(self, connection: dict[str, Any], advance: Advance = lambda *_: None) -> None:
        self._consumer = Consumer(
            {**LOOKUP_CONSUMER, **connection, "enable.partition.eof": True, "log_level": 2}
        )
        self._advance = advance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions; none where the topic does not exist.

        Raises:
            BrokerError: the brokers do not answer.
        """
        # All are listed: asking for one by name makes some brokers create it.
        with _kafka_errors("The topics can't be listed"):
            found = self._consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
        return [] if found is None else sorted(found.partitions)

    def scan(
        self,
        topic: str,
        wanted: Wanted = everything,
        *,
        partitions: Iterable[int] | None = None,
        from_ms: int | None = None,
    ) -> Iterator[FoundRecord]:
        """Yield the wanted records up to the ends that the partitions have now.

        Args:
            topic: one that does not exist yields nothing.
            wanted: tells of each record whether it is; called often, so it should be quick.
            partitions: of these only; None for all.
            from_ms: leave out what stands before the first record of that time or later.

        Raises:
            BrokerError: the brokers do not answer, or refuse.
        """
        numbers = self.partitions(topic)
        if partitions is not None:
            numbers = [one for one in numbers if one in set(partitions)]
        spans = self._spans(topic, numbers, from_ms)
        if spans:
            yield from self._read(topic, spans, wanted)

    def ends(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return where each partition of the topics ends now: from there `follow` goes on."""
        numbers = ((topic, number) for topic in topics for number in self.partitions(topic))
        return [TopicPartition(*one, self._watermarks(*one)[1]) for one in numbers]

    def follow(
        self, starts: list[TopicPartition], is_over: Callable[[], bool]
    ) -> Iterator[FoundRecord]:
        """Yield every record from there on as it comes, until it is over.

        Args:
            starts: as `ends` returned them.
            is_over: asked before every look, several times per second.
        """
        self._consumer.assign(starts)
        while not is_over():
            for message in self._consume(0.2):
                if message.error() is None:
                    yield FoundRecord.of(message)

    def _spans(
        self, topic: str, numbers: list[int], from_ms: int | None
    ) -> dict[int, tuple[int, int]]:
        """Return by partition the first offset to read and the end, where there is anything."""
        marks = {number: self._watermarks(topic, number) for number in numbers}
        if from_ms is not None and numbers:
            wanted = [TopicPartition(topic, number, max(0, from_ms)) for number in numbers]
            with _kafka_errors(f"{topic} can't be searched by time"):
                found = self._consumer.offsets_for_times(wanted, TIMEOUT_S)
            # A negative offset says that no record is as late as that.
            first = {one.partition: one.offset for one in found}
            marks = {
                number: (first[number] if first[number] >= 0 else end, end)
                for number, (_, end) in marks.items()
            }
        return {number: span for number, span in marks.items() if span[0] < span[1]}

    def _watermarks(self, topic: str, number: int) -> tuple[int, int]:
        with _kafka_errors(f"{topic} can't be read"):
            return self._consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S)

    def _read(
        self, topic: str, spans: dict[int, tuple[int, int]], wanted: Wanted
    ) -> Iterator[FoundRecord]:
        self._consumer.assign(
            [TopicPartition(topic, number, first) for number, (first, _) in spans.items()]
        )
        progress = _ScanProgress(spans)
        silent = 0
        while progress.unfinished:
            messages = self._consume(POLL_S)
            silent = 0 if messages else silent + 1
            if silent == SILENCE_POLLS_MAX:
                raise BrokerError(
                    f"{topic} gave nothing for {SILENCE_POLLS_MAX * POLL_S:.0f} s.",
                    remedy="Check that the brokers are up.",
                    topic=topic,
                )
            for message in messages:
                if progress.takes(message) and wanted(message):
                    yield FoundRecord.of(message)
            self._advance(topic, progress.behind, progress.total)

    def _consume(self, timeout_s: float) -> list[Message]:
        """Return records and news of ends; what passes by itself is left out."""
        first = self._consumer.poll(timeout_s)
        # consume() alone waits its timeout out unless it gets as many as it asked for.
        messages = [] if first is None else [first, *self._consumer.consume(MESSAGES_MAX, 0.0)]
        for message in messages:
            error = message.error()
            if error is not None and _is_fatal(error):
                raise BrokerError(
                    f"Reading {message.topic()} failed: {error.str()}.",
                    remedy="Check that the topic exists and that this user may read it.",
                    topic=message.topic(),
                    code=error.name(),
                )
        return [one for one in messages if one.error() is None or _is_end(one.error())]


class _ScanProgress:
    """Which partitions are not read to the end that they had when the scan began."""

    def __init__(self, spans: dict[int, tuple[int, int]]) -> None:
        self._ends = {number: end for number, (_, end) in spans.items()}
        self._at = {number: first for number, (first, _) in spans.items()}
        self.unfinished = set(spans)
        self.total = sum(end - first for first, end in spans.values())

    @property
    def behind(self) -> int:
        """How many offsets were passed."""
        return self.total - sum(self._ends[number] - self._at[number] for number in self._at)

    def takes(self, message: Message) -> bool:
        """Note a message or the news of an end; tell whether it is a record of the scan."""
        number, offset = message.partition() or 0, message.offset() or 0
        error, end = message.error(), self._ends[number]
        # Of a read_committed reader the end can lie before the one first told, never behind it.
        self._at[number] = end if error is not None else min(end, offset + 1)
        if self._at[number] >= end:
            self.unfinished.discard(number)
        return error is None and offset < end


@contextmanager
def _kafka_errors(what: str) -> Iterator[None]:
    """Turn librdkafka's errors into ours."""
    try:
        yield
    except KafkaException as error:
        raise BrokerError(
            f"{what}: {cause_of(error).str()}.",
            remedy="Check bootstrap_servers, the brokers, and the rights of this user.",
        ) from error


def _is_end(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _is_fatal(error: KafkaError) -> bool:
    passing = (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    return not error.retriable() and error.code() not in passing
