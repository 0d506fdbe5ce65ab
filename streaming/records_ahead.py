"""Looks at what no batch has read: how many records, and how large some of them are.

Kafka tells no sizes without the records. So a few are read at chosen offsets, and their sizes taken
as Spark will have them in memory: unpacked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.checkpoints.logs import Offsets
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.errors import cause_of
from checkback.sinks.kafka.listed_offsets import Place, by_place, listed_offsets
from checkback.sinks.kafka.source_record import readable_headers

ANSWER_S_MAX: Final = 2.0
SIZES_S_MAX: Final = 5.0
RECORDS_EACH: Final = 8
"""Of those that come along with the one at an offset, in the same batch of their producer's."""
SAMPLE: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
    # After the last record there may only be the end of a transaction.
    "enable.partition.eof": True,
    # The broker sends one producer batch however large it is; more than one is not wanted.
    "fetch.message.max.bytes": 1_024,
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 0,
    "fetch.wait.max.ms": 10,
}


@dataclass(slots=True)
class RecordsAhead:
    """What the topics hold that no batch has read.

    Args:
        connection: librdkafka's settings for the consumer's connection; it joins no group.
        largest: how large a record may be; one that librdkafka does not take counts as that.
        admin: asks for offsets.
    """

    connection: Mapping[str, Any]
    largest: int
    admin: AdminClient
    _consumer: Consumer | None = None

    def unread(self, ends: Offsets) -> dict[Place, int]:
        """Return how many offsets can be read from these on, of each partition that has any.

        Raises:
            BrokerError: the brokers do not tell it.
        """
        read = by_place(ends)
        latest, readable = OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
        stored = listed_offsets(self.admin, read, latest, readable, ANSWER_S_MAX, retry_s=0.0)
        return {place: stored[place] - end for place, end in read.items() if stored[place] > end}

    def beginnings(self, topics: Mapping[str, int]) -> Offsets:
        """Return the first offset of each partition.

        Args:
            topics: how many partitions each has.

        Raises:
            BrokerError: the brokers do not tell it.
        """
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        earliest, readable = OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED
        first = listed_offsets(self.admin, places, earliest, readable, ANSWER_S_MAX, retry_s=0.0)
        return {
            topic: {number: first[topic, number] for number in range(count)}
            for topic, count in topics.items()
        }

    def sizes(self, points: Iterable[Mapping[Place, int]]) -> list[dict[Place, float]]:
        """Return the mean size of a few records of each partition, from each offset on.

        Args:
            points: sets of offsets, which are looked at one after the other.

        Raises:
            BrokerError: not all of them came in time.
        """
        if self._consumer is None:
            self._consumer = Consumer({"log_level": 0, **self.connection, **SAMPLE})
        until_s = time.monotonic() + SIZES_S_MAX
        try:
            return [self._sizes(self._consumer, offsets, until_s) for offsets in points]
        except KafkaException as error:
            raise BrokerError(f"No records could be read: {cause_of(error).str()}.") from error
        finally:
            with suppress(KafkaException):
                self._consumer.unassign()

    def _sizes(
        self, consumer: Consumer, offsets: Mapping[Place, int], until_s: float
    ) -> dict[Place, float]:
        consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        found: dict[Place, list[int]] = {place: [] for place in offsets}
        left = set(offsets)
        while left:
            wait_s = 0.0 if all(found.values()) else max(0.0, until_s - time.monotonic())
            message = consumer.poll(wait_s)
            if message is None:
                break
            place = (str(message.topic()), int(message.partition() or 0))
            if place not in left:
                continue
            size = size_of(message, self.largest)
            if size is not None or not found[place]:
                found[place].append(size or 0)
            if size is None or len(found[place]) == RECORDS_EACH:
                # Thousands of other records may have come with it; skip them.
                left.remove(place)
                consumer.incremental_unassign([TopicPartition(*place)])
        if not all(found.values()):
            raise BrokerError("Not all partitions gave a record in time.")
        return {place: sum(sizes) / len(sizes) for place, sizes in found.items()}

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def size_of(message: Message, largest: int) -> int | None:
    """Return how large a record is, unpacked; None for a partition's end."""
    error = message.error()
    if error is not None:
        return None if error.code() == KafkaError._PARTITION_EOF else largest
    # A header name that is no text has no known size; the record itself can be read.
    headers = readable_headers(message)
    of_headers = sum(len(name) + len(value or b"") for name, value in headers)
    return len(message.key() or b"") + len(message.value() or b"") + of_headers
