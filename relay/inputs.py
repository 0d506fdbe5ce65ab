"""The relay's consumers: ops as a member of the group, halves of the same partitions (rule 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.read.record_reader import require_passing
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.kafka.transaction.marker import UNREAD, committed_offsets
from checkback.sinks.records.source_record import UNREADABLE_CODES

MESSAGES_MAX: Final = 1_000
MAX_POLL_EXCEEDED: Final = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001
FETCH_POSITION_S: Final = 1.0
READER: Final[dict[str, Any]] = {
    "group.id": "checkback-relay-reader",  # no reader joins it; OpReader names another
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 1,
    "queued.max.messages.kbytes": 32_768,
}
OF_PRODUCERS: Final[dict[str, Any]] = {
    # Records that can't be unpacked stand only where producers write.
    "fetch.error.backoff.ms": 20,
    "topic.metadata.refresh.interval.ms": 30_000,
}
MEMBER: Final[dict[str, Any]] = {
    "partition.assignment.strategy": "roundrobin",
    # After this and a rebalance, another relay has the partitions of a killed one.
    "session.timeout.ms": 8_000,
    "heartbeat.interval.ms": 2_000,
    # Then a relay that hangs leaves the group. It is longer than INIT_S, the init of a producer.
    "max.poll.interval.ms": 45_000,
}


@dataclass(slots=True)
class OpReader:
    """A member of the group of relays, which reads ops.

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
    _rests: bool = False
    _consumer: Consumer = field(init=False)

    def __post_init__(self) -> None:
        settings = {**READER, **OF_PRODUCERS, **MEMBER, **self.connection, "group.id": self.group}
        self._consumer = Consumer(settings)
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
        try:
            found = committed_offsets(self._consumer, wanted, FETCH_POSITION_S)
        except KafkaException as error:
            cause = cause_of(error)
            if cause.code() in UNREAD or cause.retriable():
                return None
            raise BrokerError(
                f"The position of the group {self.group} can't be read: {cause.str()}.",
                remedy="Check the brokers, and the relay's rights on its group.",
                code=cause.name(),
            ) from error
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def read(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from there on."""
        self._rests = False
        self._consumer.assign(
            [TopicPartition(self.topic, number, at) for number, at in positions.items()]
        )

    def poll(self, wait_s: float) -> list[Message]:
        """Return the messages of that time; rebalances happen in this call."""
        return _polled(self._consumer, wait_s)

    def rest(self, *, rests: bool) -> None:
        """Pause the reading of ops, or resume it."""
        if rests == self._rests:
            return
        self._rests, every = rests, self._consumer.assignment()
        (self._consumer.pause if rests else self._consumer.resume)(every)

    def skip(self, message: Message) -> None:
        """Go on behind a record that can't be unpacked."""
        _skip(self._consumer, message)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted(place.partition for place in partitions)
        self.metadata = consumer.consumer_group_metadata()
        self.rebalances += 1
        consumer.assign([])

    def _on_revoke(self, consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.assigned, self.metadata = [], None
        self.rebalances += 1
        consumer.unassign()


@dataclass(slots=True)
class HalfReader:
    """Reads halves, outside of any group."""

    connection: Mapping[str, Any]
    topic: str
    _consumer: Consumer = field(init=False)

    def __post_init__(self) -> None:
        self._consumer = Consumer({**READER, **OF_PRODUCERS, **self.connection})

    def read(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from there on."""
        self._consumer.assign(
            [TopicPartition(self.topic, number, at) for number, at in positions.items()]
        )

    def poll(self, wait_s: float) -> list[Message]:
        """Return the messages of that time."""
        return _polled(self._consumer, wait_s)

    def skip(self, message: Message) -> None:
        """Go on behind a record that can't be unpacked."""
        _skip(self._consumer, message)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def _polled(consumer: Consumer, wait_s: float) -> list[Message]:
    # consume() alone waits for its whole time unless it gets as many records as it asked for.
    first = consumer.poll(wait_s)
    return [] if first is None else [first, *consumer.consume(MESSAGES_MAX, 0.0)]


def _skip(consumer: Consumer, message: Message) -> None:
    behind = TopicPartition(message.topic() or "", message.partition() or 0,
                            (message.offset() or 0) + 1)  # fmt: skip
    with suppress(KafkaException):  # revoked meanwhile
        consumer.seek(behind)


def records_among(
    messages: Iterable[Message],
    at_end: Callable[[int, int], None],
    unreadable: Callable[[Message], None],
) -> Iterable[Message]:
    """Yield the records among a consumer's messages; two callbacks get the others.

    Raises:
        BrokerError: an error that does not pass by itself.
    """
    for message in messages:
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end(message.partition() or 0, message.offset() or 0)
        elif error.code() in UNREADABLE_CODES and (message.offset() or -1) >= 0:
            unreadable(message)
        elif error.code() != MAX_POLL_EXCEEDED:  # a rebalance follows
            require_passing(error, message.topic(), message.partition())
