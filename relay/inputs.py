"""The relay's consumer: ops as a member of the group, halves and decided records (rule 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from checkback.relay.decided_log import GROUP_OPS_MAX
from checkback.relay.questions import positions_of
from checkback.sinks.kafka.read.errors import require_passing
from checkback.sinks.kafka.read.poll import polled
from checkback.sinks.records.source_record import (
    UNREADABLE_CODES,
    PlacedRecord,
    without_headers,
)

MAX_POLL_EXCEEDED: Final = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001
METADATA_S: Final = 1.0
MEMBER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 1,
    # A broker answers the requests of a connection in turn. With 500 ms, an empty fetch kept back
    # other partitions and two questions for metadata: a start took 1.5 s longer.
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 32_768,
    # What is read ahead of one partition waits in front of what the others get.
    "queued.min.messages": GROUP_OPS_MAX,
    "fetch.message.max.bytes": 262_144,
    # Records that can't be unpacked stand only where producers write.
    "fetch.error.backoff.ms": 20,
    "topic.metadata.refresh.interval.ms": 30_000,
    "partition.assignment.strategy": "roundrobin",
    # After this and a rebalance, another relay has the partitions of a killed one.
    "session.timeout.ms": 8_000,
    "heartbeat.interval.ms": 2_000,
    # Then a relay that hangs leaves the group. It is longer than INIT_S, the init of a producer.
    "max.poll.interval.ms": 45_000,
}


class Read(NamedTuple):
    """What was read: a record, or all records below an offset.

    Args:
        record: None where the partition ends.
    """

    topic: str
    partition: int
    offset: int
    record: PlacedRecord | None


@dataclass(slots=True)
class Inputs:
    """A member of the group of relays, which reads ops, and beside them other topics.

    One consumer reads all: fewer requests, and a half comes before its op.
    An assignment starts no reading: after each rebalance all partitions start again (rule 6), and
    `read` says where.
    """

    connection: Mapping[str, Any]
    group: str
    topic: str
    assigned: list[int] = field(default_factory=list)
    metadata: Any = None
    """The metadata of the group when the partitions were assigned."""
    rebalances: int = 0
    _consumer: Consumer = field(init=False)
    _sought: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._consumer = Consumer({**MEMBER, **self.connection, "group.id": self.group})
        self._consumer.subscribe(
            [self.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )

    def positions(self) -> dict[int, int] | None:
        """Return the group's positions of the assigned partitions; None if they are not known yet.

        They are unknown while a predecessor's transaction is open. A partition without a position
        is left out.

        Raises:
            BrokerError: the brokers refuse.
        """
        wanted = [TopicPartition(self.topic, number) for number in self.assigned]
        found = positions_of(self._consumer, self.group, wanted)
        return None if found is None else {at: offset for (_, at), offset in found.items()}

    def read(self, places: Sequence[TopicPartition]) -> None:
        """Read these partitions, each from its offset on, and no others."""
        self._sought.clear()
        for topic in {place.topic for place in places}:
            # Else librdkafka looks for a topic that it does not know only after a second.
            with suppress(KafkaException):
                self._consumer.list_topics(topic, METADATA_S)
        self._consumer.assign([*places])
        self._consumer.resume([*places])  # one that was paused before may still be

    def poll(self, wait_s: float) -> list[Read]:
        """Return what is read in that time; rebalances happen in this call.

        Raises:
            BrokerError: the brokers refuse.
        """
        reads = []
        for message in polled(self._consumer, wait_s, GROUP_OPS_MAX):
            read = read_of(message)
            if read is not None:
                reads.append(read)
                if read.record not in (None, message):  # a substitute: it can't be unpacked
                    self._skip(read)
        return reads

    def set_paused(self, number: int, *, is_paused: bool) -> None:
        """Pause the reading of a partition's ops, or resume it."""
        with suppress(KafkaException):  # revoked meanwhile
            (self._consumer.pause if is_paused else self._consumer.resume)(
                [TopicPartition(self.topic, number)]
            )

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _skip(self, read: Read) -> None:
        """Go on behind a record that can't be unpacked.

        librdkafka names the first offset of a batch, wherever in the batch one seeks.
        """
        at = read.topic, read.partition
        self._sought[at] = offset = max(read.offset, self._sought.get(at, 0)) + 1
        with suppress(KafkaException):  # revoked meanwhile
            self._consumer.seek(TopicPartition(*at, offset))

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted(place.partition for place in partitions)
        self.metadata = consumer.consumer_group_metadata()
        self.rebalances += 1
        consumer.assign([])

    def _on_revoke(self, consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.assigned, self.metadata = [], None
        self.rebalances += 1
        consumer.unassign()


def read_of(message: Message) -> Read | None:
    """Return what a consumer's message says was read; None for an error that passes by itself.

    Raises:
        BrokerError: any other error.
    """
    error = message.error()
    record: PlacedRecord | None = None
    if error is None:
        record = message
    elif error.code() in UNREADABLE_CODES and message.offset() is not None:
        record = without_headers(message, error.str())
    elif error.code() != KafkaError._PARTITION_EOF:
        if error.code() != MAX_POLL_EXCEEDED:  # a rebalance follows
            require_passing(error, message.topic(), message.partition())
        return None
    return Read(message.topic() or "", message.partition() or 0, message.offset() or 0, record)
