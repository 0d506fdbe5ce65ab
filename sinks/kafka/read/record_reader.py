"""Looking records up by offset, as RocketMQ's lookMessageByOffset does.

The state holds decisions, never bodies. So the sink reads here the records that it makes final
messages, check requests and refused records of: in ascending order, with one seek per run of
neighbouring offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Protocol

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numpy.typing import NDArray

from checkback.protocol.errors import BrokerError
from checkback.protocol.refusals import RecordOrigin
from checkback.sinks.kafka.read.errors import require_passing
from checkback.sinks.kafka.read.poll import polled
from checkback.sinks.records.source_record import (
    UNREADABLE_CODES,
    PlacedRecord,
    RecordCopy,
    readable,
)

RUN_GAP_MAX: Final = 512
"""The largest gap between wanted offsets that is read through rather than skipped by a seek: a seek
costs as much as some 1,000 records."""
SILENCE_POLLS_MAX: Final = 60
POLL_S: Final = 1.0

LOOKUP_CONSUMER: Final[dict[str, Any]] = {
    "group.id": "checkback-lookup",  # required by librdkafka; nothing is ever committed for it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # If retention has deleted a wanted offset, the reader continues at the first record left.
    "auto.offset.reset": "earliest",
    # librdkafka sleeps this long after every pause: its default of 1,000 ms made the job five times
    # slower.
    "fetch.queue.backoff.ms": 1,
    # librdkafka sleeps this long for each batch that it can't unpack; its default is 500 ms.
    "fetch.error.backoff.ms": 20,
    # A seek waits for the fetch under way, and at a partition's end a fetch lasts this long: with
    # 50 ms, a sink took 77 ms for ten records of two partitions.
    "fetch.wait.max.ms": 5,
    # The sink reads a page of halves and then seeks, so records fetched beyond the page are
    # useless. With the defaults they were more than half (27 against 16 us of processor time per
    # message).
    "fetch.message.max.bytes": 350_000,
    "queued.min.messages": 250,
    "queued.max.messages.kbytes": 32_768,
}

REPORTS_END: Final = {"enable.partition.eof": True}
"""With this, a reader learns at once that a wanted record is gone and no other one follows."""


class RecordSource(Protocol):
    """A source of records by offset: a RecordReader, or a substitute in tests."""

    def read(
        self, partition: int, offsets: NDArray[np.int64]
    ) -> Iterator[tuple[int, PlacedRecord | None]]:
        """Yield (offset, record) in ascending order; None for a record that is gone."""
        ...

    def close(self) -> None:
        """Give connections up."""
        ...


@dataclass(slots=True)
class RecordReader:
    """Reads records of one topic by offset; keeps its consumer and its position between calls.

    Args:
        silence_polls_max: how many polls in a row may bring nothing; each takes one to two seconds.
    """

    connection: dict[str, Any]
    topic: str
    silence_polls_max: int = SILENCE_POLLS_MAX
    _consumer: Consumer | None = None
    _partition: int = -1
    _position: int = -1
    _is_amid_run: bool = False
    _batch: list[Message] = field(default_factory=list)
    _index: int = 0
    _sought: int = -1  # the offset that was asked for, while nothing has come since
    _why_unreadable: str = ""

    def read(
        self, partition: int, offsets: NDArray[np.int64]
    ) -> Iterator[tuple[int, PlacedRecord | None]]:
        """Yield (offset, record) in ascending order; None for a record that is gone.

        A record of which something can't be read is yielded without that part.

        Args:
            offsets: int64[n], ascending, without repeats, all below the partition's end.

        Raises:
            BrokerError: the brokers gave nothing for all these polls.
        """
        for run in _runs(offsets):
            yield from self._read_run(partition, run)

    def rest(self) -> None:
        """Drop the partition until the next call: a consumer with one would fetch on and on."""
        if self._consumer is not None and self._partition >= 0:
            with suppress(KafkaException):  # the next call raises it
                self._consumer.unassign()
            self._partition, self._batch = -1, []

    def close(self) -> None:
        """Give the connection up."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
            self._partition = -1

    def _read_run(
        self, partition: int, wanted: NDArray[np.int64]
    ) -> Iterator[tuple[int, PlacedRecord | None]]:
        self._go_to(partition, int(wanted[0]))
        self._is_amid_run = True
        message: Message | None = None
        at = -1
        for offset in wanted.tolist():
            while at < offset:
                if self._index >= len(self._batch):
                    self._batch, self._index = self._consume(offset), 0
                    if not self._batch:
                        at = offset if self._why_unreadable else GONE
                        message = None
                        break
                message = self._batch[self._index]
                self._index += 1
                at = _last_offset(message)
            yield offset, self._found(offset, message, at)
        self._position = at + 1
        if int(wanted[-1]) < at < GONE:
            # Read but not wanted here: the next run may want it.
            self._index -= 1
            self._position = at
        self._is_amid_run = False

    def _found(self, offset: int, message: Message | None, at: int) -> PlacedRecord | None:
        if self._why_unreadable:
            place = RecordOrigin(self.topic, self._partition, offset)
            record, self._why_unreadable = RecordCopy(place, self._why_unreadable), ""
            return record
        if message is None or at != offset or message.error() is not None:
            return None
        return readable(message)

    def _go_to(self, partition: int, offset: int) -> None:
        # If a try was given up, its run has left the position where the run began; records that it
        # had already taken out of the batch would seem gone.
        near = self._position <= offset <= self._position + RUN_GAP_MAX and not self._is_amid_run
        if partition == self._partition and near:
            return
        self._seek(partition, offset)

    def _seek(self, partition: int, offset: int) -> None:
        if self._consumer is None:
            self._consumer = Consumer({**LOOKUP_CONSUMER, **REPORTS_END, **self.connection})
        self._consumer.assign([TopicPartition(self.topic, partition, offset)])
        self._partition = partition
        self._position = self._sought = offset
        self._batch = []
        self._index = 0

    def _consume(self, wanted: int) -> list[Message]:
        """Return the next records, and the partition's end where that is behind the wanted offset.

        The list is empty where the partition holds nothing from here on, or the wanted record
        can't be read.
        """
        for _ in range(self.silence_polls_max):
            polled = self._poll()
            usable = list(takewhile(_is_readable, polled))
            messages = [one for one in usable if _is_record(one) or _last_offset(one) >= wanted]
            if len(usable) < len(polled):
                self._why_unreadable = str(polled[len(usable)].error())
                # It may have been one before the wanted record, which is then asked for by itself.
                if not messages and self._sought == wanted:
                    return []
                self._why_unreadable = ""
                self._seek(self._partition, _last_offset(messages[-1]) + 1 if messages else wanted)
            elif messages:
                self._sought = -1
            if messages:
                return messages
            first, end = self._range()
            if first == end or self._position >= end:
                return []
        raise silence_error(TopicPartition(self.topic, self._partition, self._position))

    def _poll(self) -> list[Message]:
        return [] if self._consumer is None else polled(self._consumer, POLL_S)

    def _range(self) -> tuple[int, int]:
        partition = TopicPartition(self.topic, self._partition)
        assert self._consumer is not None  # noqa: S101 - asked only while reading
        try:
            return self._consumer.get_watermark_offsets(partition, POLL_S)
        except KafkaException:
            return 0, self._position + 1  # unknown: go on waiting


def silence_error(position: TopicPartition) -> BrokerError:
    """Return the error of a reader to which many polls in a row brought nothing."""
    return BrokerError(
        f"The brokers gave nothing of {position.topic}-{position.partition} from offset"
        f" {position.offset} on.",
        remedy="Check that the brokers are up and that the pipeline may read the topic.",
        topic=position.topic,
        partition=position.partition,
        offset=position.offset,
    )


GONE: Final = 2**62
"""Stands for the offset of the record after the last one."""


def _is_readable(message: Message) -> bool:
    error = message.error()
    return error is None or error.code() not in UNREADABLE_CODES


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is not None:
        require_passing(error, message.topic(), message.partition())
    return error is None


def _last_offset(message: Message) -> int:
    """Return the offset up to which a partition is read with this.

    A partition's end says where the next record will stand: all before it was read, or is no record
    that a reader sees, such as the end of a transaction.
    """
    error, offset = message.error(), message.offset() or 0
    if error is None:
        return offset
    return offset - 1 if error.code() == KafkaError._PARTITION_EOF else -1


def next_record(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> Message | None:
    """Return the next record of a partition, None at its end.

    Raises:
        BrokerError: they do not answer, or refuse.
    """
    until_s = time.monotonic() + timeout_s
    while True:
        record = consumer.poll(max(0.0, until_s - time.monotonic()))
        if record is None:
            raise BrokerError(
                f"Reading {topic}-{partition} failed: no answer in {timeout_s:.0f} s.",
                remedy="Check that all brokers are up.",
                topic=topic,
            )
        error = record.error()
        if error is None:
            return record
        if error.code() == KafkaError._PARTITION_EOF:
            return None
        require_passing(error, topic, partition)


def _runs(offsets: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split ascending offsets where the gap is wide enough for a seek to pay."""
    if not len(offsets):
        return []
    return np.split(offsets, np.flatnonzero(np.diff(offsets) > RUN_GAP_MAX) + 1)
