"""One Kafka transaction per state partition and batch, with the marker inside it.

The order is what makes it exactly-once: initialising the producer fences whoever wrote for this
state partition before and ends his transaction; only then is the marker read, so it can't move any
more behind our back. A producer that is kept from one batch to the next needs no new look: that it
could commit proves that nobody fenced it in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import Headers
from checkback.sinks.deadline import HangingCallError, call_within
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.marker import Marker, MarkerStore, require_own_session
from checkback.sinks.native import Native
from checkback.sinks.settings import SinkSettings

Result = TypeVar("Result")
SentHeaders = list[tuple[str, str | bytes]]
"""How confluent-kafka types what it sends; a list of bytes is one, but lists are invariant."""

CALL_TIMEOUT_S: Final = 60.0
CALL_TRIES: Final = 3
FLUSH_SLICE_S: Final = 1.0
HANGING_AFTER_S: Final = 5.0
"""A call that took so much longer than it was given will not come back."""
QUEUE_KIBIBYTES_MAX: Final = 65_536

FENCED_CODES: Final = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
)

PURGED_CODES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Reports of records that an abort took out of the queue: no broker rejected them."""


class Output(NamedTuple):
    """A record to write: topic, partition (-1: by key), key, value, headers, timestamp.

    A tuple, because one is made for every message.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """What a broker would not take: topic, partition and librdkafka's error code."""

    topic: str
    partition: int
    code: int
    text: str


class RejectedOutputError(BrokerError):
    """Records were rejected. The producer is spent: init by the next one ends its transaction."""

    def __init__(self, rejections: list[Rejection]) -> None:
        first = rejections[0]
        super().__init__(f"Kafka rejected output for {first.topic}: {first.text}.")
        self.rejections = rejections


class ProducerLostError(BrokerError):
    """The producer can't be used any more: fenced, or a fatal error. A new one may go on."""


@dataclass(slots=True)
class MarkedProducer:
    """The transactional producer of one state partition, and its marker.

    Args:
        settings: the sink's.
        state_partition: number of the state partition.
        native: the sink's compiled part, if it is to send through the same producer.
    """

    settings: SinkSettings
    state_partition: int
    native: Native | None = None
    marker: Marker | None = field(default=None, init=False)
    client: int = field(default=0, init=False)
    _producer: Producer = field(init=False)
    _markers: MarkerStore = field(init=False)
    _rejections: list[Rejection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._markers = MarkerStore(self.settings)
        self._look_at_marker()  # before init, too: a job that is over must not fence its successor
        self._producer = Producer(self._configuration())
        if self.native is not None:
            self.client = self.native.newest_client()
        self._guard(lambda: self._producer.init_transactions(CALL_TIMEOUT_S))
        self._look_at_marker()

    def _look_at_marker(self) -> None:
        self.marker = self._markers.read([self.state_partition]).get(self.state_partition)
        require_own_session(self.marker, self.settings.session)

    @property
    def producer(self) -> Producer:
        """The producer, for metadata look-ups."""
        return self._producer

    def is_superseded(self, batch_id: int) -> bool:
        """Tell whether another producer moved the marker since this one did.

        To be asked when somebody else has written batches since: another executor. Looking costs
        2 ms; finding out by being fenced costs what was sent by then.
        """
        if self.marker is None or self.marker.next_batch >= batch_id:
            return False
        found = self._markers.read([self.state_partition]).get(self.state_partition)
        return found != self.marker

    def begin(self) -> None:
        """Open the transaction."""
        self._rejections.clear()
        self._guard(self._producer.begin_transaction)

    def send(self, output: Output) -> None:
        """Queue one record; waits while the queue is full.

        Raises:
            RejectedOutputError: the record is larger than the producer takes at all.
            ProducerLostError: fenced by a successor.
        """
        while True:
            try:
                self._producer.produce(
                    output.topic,
                    output.value,
                    output.key,
                    output.partition,
                    headers=cast("SentHeaders", output.headers),
                    timestamp=output.timestamp_ms,
                )
            except BufferError:
                self.make_room()
            except (KafkaException, SystemError) as error:
                self.refuse(output.topic, cause_of(error), output.partition)
            else:
                return

    def make_room(self) -> None:
        """Wait a moment for the full queue to empty.

        Raises:
            RejectedOutputError, ProducerLostError: meanwhile it was told so.
        """
        self._guard(lambda: self._producer.poll(0.1))
        self._raise_rejections()

    def refuse(self, topic: str, cause: KafkaError, partition: int = -1) -> None:
        """Raise what it means that librdkafka did not even queue a record.

        Raises:
            RejectedOutputError: it is larger than the producer takes at all.
            ProducerLostError: anything else.
        """
        if cause.code() != KafkaError.MSG_SIZE_TOO_LARGE:
            raise self._lost(cause)
        raise RejectedOutputError([Rejection(topic, partition, cause.code(), cause.str())])

    def flush(self) -> None:
        """Send what is queued and wait until the brokers have it.

        Not in one call: with a record rejected nothing more is sent, and what still waits would
        only run into the transaction's timeout.
        """
        deadline_s = time.monotonic() + CALL_TIMEOUT_S
        left = 1
        while left and time.monotonic() < deadline_s:
            left = self._guard(lambda: self._producer.flush(FLUSH_SLICE_S))
            self._raise_rejections()

    def commit(self, batch_id: int, now_ms: int) -> None:
        """Move the marker behind the batch and commit both.

        Raises:
            RejectedOutputError: records were rejected.
            ProducerLostError: fenced, or in doubt: a new producer reads the marker and knows.
        """
        self.commit_marker(Marker(batch_id + 1, now_ms, self.settings.session))

    def commit_marker(self, moved: Marker) -> None:
        """Set the marker and commit it with what was sent.

        Raises:
            RejectedOutputError, ProducerLostError: as for commit.
        """
        position = self._markers.offset(self.state_partition, moved)
        group = self._markers.group_metadata()
        # Deliveries first: an error there is a record's, and tells which.
        self.flush()
        self._guard(lambda: self._send_offset(position, group))
        self._guard(lambda: self._producer.commit_transaction(CALL_TIMEOUT_S))
        self.marker = moved

    def _send_offset(self, position: TopicPartition, group: Any) -> None:
        """Add the marker to the transaction.

        When the group's coordinator restarts meanwhile, librdkafka waits for ever, whatever the
        timeout (#5456, #5511; 2.16.1). After the transaction's own the broker has aborted it.
        """
        timeout_s = min(CALL_TIMEOUT_S, self.settings.transaction_timeout_ms / 1_000)
        producer = self._producer
        try:
            call_within(
                lambda: producer.send_offsets_to_transaction([position], group, timeout_s),
                timeout_s + HANGING_AFTER_S,
            )
        except HangingCallError as error:
            raise ProducerLostError(
                f"The producer of state partition {self.state_partition} hangs.",
                remedy="Check the brokers.",
            ) from error

    def close(self) -> None:
        """Give connections up; an open transaction is ended by the successor's init."""
        self._producer.purge()
        self._markers.close()

    def _configuration(self) -> dict[str, Any]:
        return {
            # Each batch ends in a flush, which waits for no linger. With 5 ms an idempotent
            # producer's own thread took 5.5 us per message, with 50 ms 3.2 us.
            "linger.ms": 50,
            "queue.buffering.max.kbytes": QUEUE_KIBIBYTES_MAX,
            "queue.buffering.max.messages": 100_000,
            "message.max.bytes": self.settings.message_bytes_max,
            # The Java client's and kafka-python's partitioner, so that a key stays where it was.
            "partitioner": "murmur2_random",
            # How long a topic that vanished is waited for; its default holds a batch up for 30 s.
            "topic.metadata.propagation.max.ms": 2_000,
            # Being fenced is all in a day's work here, and whatever else goes wrong is raised.
            "log_level": 0,
            **self.settings.connection,
            **(self.native.client_settings if self.native is not None else {}),
            "transactional.id": self.settings.transactional_id(self.state_partition),
            "transaction.timeout.ms": self.settings.transaction_timeout_ms,
            "delivery.report.only.error": True,
            # Once for all: a callback given with each record costs an allocation each.
            "on_delivery": self._delivered,
        }

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in PURGED_CODES:
            self._rejections.append(
                Rejection(
                    message.topic() or "", message.partition() or 0, error.code(), error.str()
                )
            )

    def _raise_rejections(self) -> None:
        if not self._rejections:
            return
        rejections = list(self._rejections)
        if any(one.code in FENCED_CODES for one in rejections):
            raise ProducerLostError(f"Fenced while writing: {rejections[0].text}.")
        raise RejectedOutputError(rejections)

    def _guard(self, call: Callable[[], Result]) -> Result:
        """Run a call of librdkafka's; a failure that it can't try again loses this producer."""
        tries_left = CALL_TRIES
        while True:
            tries_left -= 1
            try:
                return call()
            except (KafkaException, SystemError) as error:
                cause = cause_of(error)
                if self._rejections and cause.txn_requires_abort():
                    self._raise_rejections()
                if not tries_left or not cause.retriable() or cause.fatal():
                    raise self._lost(cause) from error

    def _lost(self, cause: KafkaError) -> ProducerLostError:
        return ProducerLostError(
            f"The producer of state partition {self.state_partition} is lost: {cause.str()}.",
            remedy="Check the brokers, and that no second job runs over the same checkpoint.",
            code=cause.name(),
        )


__all__ = [
    "CALL_TIMEOUT_S",
    "MarkedProducer",
    "Output",
    "ProducerLostError",
    "RejectedOutputError",
    "Rejection",
]
