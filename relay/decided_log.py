"""Reads the decided topic: who takes the ops, and how far the job has written (rules 9 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from checkback.protocol.decided import Closed, RelayMark, Taken, WrittenUntil, partition_note
from checkback.relay.inputs import READER
from checkback.relay.partition import NOWHERE, JobPosition
from checkback.sinks.kafka.read.record_reader import require_passing
from checkback.sinks.records.source_record import readable_headers

LOOK_BACK: Final = 1_000
"""How far before the end reading begins. Each transaction of a relay has a mark, and marks repeat
the newest `taken`."""
MESSAGES_MAX: Final = 1_000


@dataclass(slots=True)
class DecidedPartition:
    """What was read of one partition.

    Args:
        begin: the offset where reading began.
        end: the end of the partition when it was asked for.
    """

    begin: int
    end: int
    position: int
    taken: Taken | None = None
    position_of_marks: int = 0
    is_closed: bool = False
    job: JobPosition = NOWHERE
    _last_op: int = field(init=False)

    def __post_init__(self) -> None:
        self._last_op = self.begin - 1  # an op may stand there: it was not read

    @property
    def is_read(self) -> bool:
        """Whether it was read up to its end."""
        return self.position >= self.end

    def read_to(self, offset: int) -> None:
        """Note that all records below an offset were read."""
        self.position = max(self.position, offset)
        if self.job.decided > self._last_op:  # no op follows what the job has written
            self.job = self.job._replace(decided=max(self.job.decided, self.position))

    def take(self, message: Message) -> None:
        """Take the next record."""
        offset = message.offset() or 0
        # Notes have no key; reading headers costs more.
        headers = readable_headers(message) if message.key() is None else []
        match partition_note(headers, message.value()) if headers else None:
            case Taken() as taken:
                self.taken, self.is_closed = taken, False
            case Closed():
                self.taken, self.is_closed = None, True
            case RelayMark() as mark:
                self.taken, self.is_closed = Taken(mark.ops_from, mark.halves_from), False
                self.position_of_marks = mark.position
            case WrittenUntil() as written:
                self.job = JobPosition(written.decided, written.half)
            case _:
                self._last_op = offset
        self.read_to(offset + 1)


@dataclass(slots=True)
class DecidedLog:
    """Follows partitions of the decided topic, from shortly before their ends on."""

    connection: Mapping[str, Any]
    topic: str
    _consumer: Consumer | None = None
    partitions: dict[int, DecidedPartition] = field(default_factory=dict)

    def begin(self, ends: Mapping[int, int]) -> None:
        """Follow these partitions and no others.

        Args:
            ends: the end of each partition, records of open transactions included.
        """
        self.partitions = {at: _before(end, LOOK_BACK) for at, end in ends.items()}
        self._assign()

    def poll(self) -> None:
        """Read what is there; begin earlier where no record said who takes the ops."""
        if self._consumer is None:
            return
        for message in self._consumer.consume(MESSAGES_MAX, 0.0):
            self._take(message)
        unknown = [
            (at, found)
            for at, found in self.partitions.items()
            if found.is_read and found.taken is None and not found.is_closed and found.begin > 0
        ]
        for at, found in unknown:
            self.partitions[at] = _before(found.end, 10 * (found.end - found.begin))
        if unknown:
            self._assign()

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _assign(self) -> None:
        if self._consumer is None:
            self._consumer = Consumer({**READER, **self.connection})
        self._consumer.assign(
            [TopicPartition(self.topic, at, read.position) for at, read in self.partitions.items()]
        )

    def _take(self, message: Message) -> None:
        found = self.partitions.get(message.partition() or 0)
        error = message.error()
        if found is None:
            return
        if error is None:
            if (message.offset() or 0) >= found.position:
                found.take(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            found.read_to(message.offset() or 0)
        else:
            require_passing(error, self.topic, message.partition())


def _before(end: int, offsets: int) -> DecidedPartition:
    begin = max(0, end - offsets)
    return DecidedPartition(begin, end, begin)
