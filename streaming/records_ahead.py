"""Looks ahead of a batch: how many records are unread, and how large some of them are.

Kafka tells no sizes without the records. So a few are read at chosen offsets, and their sizes taken
as Spark will have them in memory: unpacked.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
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
from checkback.sinks.kafka.kafka_error import cause_of
from checkback.sinks.kafka.listed_offsets import Place, listed_offsets

ANSWER_S_MAX: Final = 2.0
RECORDS_EACH: Final = 32
"""Of those that come along with the one at an offset, in the same batch of their producer's."""
SAMPLE: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
    # Behind the last records there may be nothing but the end of a transaction.
    "enable.partition.eof": True,
    # A producer's batch comes however large it is; no more than one is wanted.
    "fetch.message.max.bytes": 1_024,
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 0,
    "fetch.wait.max.ms": 10,
}


@dataclass(slots=True)
class RecordsAhead:
    """What the topics hold that no batch has read.

    Args:
        group: names the consumer; it joins no group.
        connection: librdkafka's settings for the connection.
        topics: what the pipeline reads.
        bytes_max: what a record counts as that librdkafka does not take.
    """

    group: str
    connection: Mapping[str, Any]
    topics: Collection[str]
    bytes_max: int
    _admin: AdminClient | None = field(default=None, repr=False)
    _consumer: Consumer | None = field(default=None, repr=False)

    def begins(self) -> Offsets:
        """Return where the partitions of the topics begin.

        Raises:
            BrokerError: the brokers do not tell it.
        """
        try:
            known = self._asked().list_topics(timeout=ANSWER_S_MAX).topics
        except KafkaException as error:
            raise BrokerError(f"No topics are listed: {cause_of(error).str()}.") from error
        places = [(one, at) for one in self.topics if one in known for at in known[one].partitions]
        begins: dict[str, dict[int, int]] = {}
        for (topic, at), first in self._listed(places, OffsetSpec.earliest()).items():
            begins.setdefault(topic, {})[at] = first
        return begins

    def unread(self, ends: Offsets) -> dict[Place, int]:
        """Return how many offsets can be read from these on, of each partition that has any.

        Raises:
            BrokerError: the brokers do not tell it.
        """
        read = {(topic, at): end for topic, parts in ends.items() for at, end in parts.items()}
        stored = self._listed(read, OffsetSpec.latest())
        return {place: stored[place] - end for place, end in read.items() if stored[place] > end}

    def sizes(self, offsets: Mapping[Place, int]) -> dict[Place, float]:
        """Return the mean size of a few records of each partition, from an offset on.

        Raises:
            BrokerError: not all of them came in time.
        """
        try:
            found = self._sampled(offsets)
        except KafkaException as error:
            raise BrokerError(f"No records are read: {cause_of(error).str()}.") from error
        if not all(found.values()):
            raise BrokerError("Not all partitions gave a record in time.")
        return {place: sum(sizes) / len(sizes) for place, sizes in found.items()}

    def _sampled(self, offsets: Mapping[Place, int]) -> dict[Place, list[int]]:
        consumer, until_s = self._sampling(), time.monotonic() + ANSWER_S_MAX
        consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        found: dict[Place, list[int]] = {place: [] for place in offsets}
        while not all(found.values()):
            message = consumer.poll(max(0.0, until_s - time.monotonic()))
            if message is None:
                break
            place = (str(message.topic()), int(message.partition() or 0))
            if place not in found:
                continue
            found[place].append(self._size(message))
            if len(found[place]) == RECORDS_EACH:
                # The other thousands that came with it need not be gone through.
                consumer.incremental_unassign([TopicPartition(*place)])
        consumer.unassign()
        return found

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _size(self, message: Message) -> int:
        error = message.error()
        if error is not None:
            return 0 if error.code() == KafkaError._PARTITION_EOF else self.bytes_max
        try:
            headers = message.headers() or []
        except UnicodeDecodeError:  # the name of one is no text
            return self.bytes_max
        of_headers = sum(len(name) + len(value or b"") for name, value in headers)
        return len(message.key() or b"") + len(message.value() or b"") + of_headers

    def _listed(self, places: Iterable[Place], which: OffsetSpec) -> dict[Place, int]:
        readable = IsolationLevel.READ_COMMITTED
        return listed_offsets(self._asked(), places, which, readable, ANSWER_S_MAX, retry_s=0.0)

    def _asked(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"log_level": 0, **self.connection})
        return self._admin

    def _sampling(self) -> Consumer:
        if self._consumer is None:
            own = {"group.id": self.group, **SAMPLE}
            self._consumer = Consumer({"log_level": 0, **self.connection, **own})
        return self._consumer
