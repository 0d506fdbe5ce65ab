"""One Kafka transaction per state partition and batch, with the marker inside it.

The order makes it exactly-once. Initialising the producer fences the previous writer of this state
partition and ends its transaction. Only then the sink reads the marker, which no other producer can
move from then on. A producer that is kept for the next batch need not read the marker again: its
commit proves that it was not fenced in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from checkback.sinks.kafka.transaction.errors import (
    ABORTED_CODES,
    FENCED_CODES,
    PURGED_CODES,
    UNQUEUED_CODES,
    ProducerLostError,
    RejectedOutputError,
    Rejection,
    cause_of,
    unanswered,
)
from checkback.sinks.kafka.transaction.hanging import initialise_once_ended
from checkback.sinks.kafka.transaction.limited_call import HangingCallError, call_within
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore, require_own_epoch
from checkback.sinks.kafka.transaction.queueing import queue
from checkback.sinks.records.sink_record import BY_KEY, SinkRecord
from checkback.sinks.settings import SinkSettings

Result = TypeVar("Result")

CALL_TIMEOUT_S: Final = 60.0
HASTY_S: Final = 10.0
HASTY_COMMIT_S: Final = 5.0
CALL_TRIES: Final = 3
FLUSH_SLICE_S: Final = 0.1
REPORTS_WITHIN_S: Final = 2.0
HANGING_AFTER_S: Final = 5.0
"""A call that exceeds its timeout by this much will never return."""
ANSWER_MS_MAX: Final = int((CALL_TIMEOUT_S + HANGING_AFTER_S) * 1_000)
QUEUE_KIBIBYTES_MAX: Final = 65_536
RETRY_BACKOFF_MS: Final = 500
SLOW_COMMIT_S: Final = 0.3
"""Less than the 400 ms after which librdkafka sends a commit again at the earliest."""


class ClientFinder(Protocol):
    """Finds the client behind a producer: the sink's compiled part sends through it."""

    @property
    def client_settings(self) -> dict[str, Any]:
        """The settings with which a client must be made, so that it can be found."""
        ...

    def newest_client(self) -> int:
        """Return the address of the client that this thread made last."""
        ...


@dataclass(slots=True)
class MarkedProducer:
    """The transactional producer of one state partition, and its marker.

    Args:
        native: the sink's compiled part, if it is to send through the same producer.
        tracks_records: whether rejections have to name the record; it costs a callback for each.
        init_timeout_s: how long the brokers may take to end a predecessor's transaction.
    """

    settings: SinkSettings
    state_partition: int
    native: ClientFinder | None = None
    tracks_records: bool = False
    init_timeout_s: float = CALL_TIMEOUT_S
    marker: Marker | None = field(default=None, init=False)
    client: int = field(default=0, init=False)
    is_spent: bool = field(default=False, init=False)
    """Whether a commit may have been sent twice. Then the first request may come late, and commit
    the next transaction half way (KIP-890): only a later epoch shuts it out."""
    is_patient: bool = field(default=True, init=False)
    """Whether the brokers have as long for a marker and a commit as for any call. An impatient
    producer is given up after 15 s; the next one goes on at once."""
    _producer: Producer = field(init=False)
    _markers: MarkerStore = field(init=False)
    _rejections: list[Rejection] = field(default_factory=list)  # never another: callbacks hold it

    def __post_init__(self) -> None:
        self._markers = MarkerStore(self.settings)
        # Before init, too: a job that is over must not fence its successor.
        self._look_hastily()
        self._producer = Producer(self._configuration())
        if self.native is not None:
            self.client = self.native.newest_client()
        self._initialise()
        self._look_at(self._markers.read([self.state_partition]))

    def _initialise(self) -> None:
        """Fence the predecessor and have the brokers end its transaction.

        Raises:
            BrokerError: a topic that rejects the end of a transaction keeps them from it.
            FencedError: the job was superseded while it waited for lost replicas.
            ProducerLostError: anything else.
        """
        mine, number = self.settings, self.state_partition
        self._guard(
            lambda: initialise_once_ended(
                self._producer, mine, number, self.init_timeout_s, self._look_hastily
            )
        )

    def _look_hastily(self) -> None:
        self._look_at(self._markers.read_hastily([self.state_partition]))

    def _look_at(self, markers: dict[int, Marker]) -> None:
        self.marker = markers.get(self.state_partition)
        require_own_epoch(self.marker, self.settings.epoch)

    def is_superseded(self, batch_id: int) -> bool:
        """Return whether another producer moved the marker since this one did.

        Call it if another executor may have written batches since. The call costs 2 ms; without it
        a fenced producer would send a batch for nothing.
        """
        if self.marker is None or self.marker.next_batch >= batch_id:
            return False
        found = self._markers.read([self.state_partition]).get(self.state_partition)
        return found != self.marker

    def begin(self) -> None:
        """Open the transaction."""
        self._rejections.clear()
        self._guard(self._producer.begin_transaction)

    def send(self, output: SinkRecord) -> None:
        """Queue one record; waits while the queue is full.

        Raises:
            RejectedOutputError: the record is larger than the producer takes at all.
            ProducerLostError: fenced by a successor.
        """
        report = partial(note_rejection, self._rejections, output) if self.tracks_records else None
        try:
            queue(self._producer, output, report, self.make_room)
        except (KafkaException, SystemError) as error:
            self.raise_not_queued(output.topic, cause_of(error), output)
        except (ValueError, TypeError, OverflowError) as error:
            cause = KafkaError(KafkaError._INVALID_ARG, f"{type(error).__name__}: {error}")
            self.raise_not_queued(output.topic, cause, output)

    def make_room(self) -> None:
        """Wait a moment for the full queue to empty.

        Raises:
            RejectedOutputError, ProducerLostError: the brokers said so meanwhile.
        """
        self._guard(lambda: self._producer.poll(0.1))
        self._raise_rejections()

    def raise_not_queued(
        self, topic: str, cause: KafkaError, record: SinkRecord | None = None
    ) -> None:
        """Raise the error for a record that librdkafka did not queue.

        Raises:
            RejectedOutputError: Kafka does not take this record, or did not take one before it.
            ProducerLostError: anything else.
        """
        if cause.code() not in UNQUEUED_CODES:
            self._await_rejections()
            self._raise_rejections()
            raise self._lost(cause)
        partition = BY_KEY if record is None else record.partition
        raise RejectedOutputError([Rejection(topic, partition, cause.code(), cause.str(), record)])

    def _await_rejections(self) -> None:
        """Wait for the reports that led to a transaction's end.

        librdkafka ends it before it reports the record, and poll() returns for either.
        """
        deadline_s = time.monotonic() + REPORTS_WITHIN_S
        while not self._rejections and time.monotonic() < deadline_s:
            self._guard(lambda: self._producer.poll(FLUSH_SLICE_S))

    def flush(self) -> None:
        """Send what is queued and wait until the brokers have it.

        Not in one call: after a rejected record librdkafka sends nothing more, and one call would
        wait until the transaction's timeout.
        """
        deadline_s = time.monotonic() + CALL_TIMEOUT_S
        left = 1
        while left and time.monotonic() < deadline_s:
            left = self._guard(lambda: self._producer.flush(FLUSH_SLICE_S))
            self._raise_rejections()
        if left:
            raise unanswered(
                f"The brokers did not take what state partition {self.state_partition} sent in "
                f"{CALL_TIMEOUT_S:.0f} s."
            )

    def commit(self, batch_id: int, now_ms: int) -> None:
        """Move the marker behind the batch and commit both.

        Raises:
            RejectedOutputError: records were rejected.
            ProducerLostError: fenced, or in doubt: a new producer reads the marker and knows.
        """
        self.commit_marker(Marker(batch_id + 1, now_ms, self.settings.epoch))

    def commit_part(self, batch_id: int, rows_done: int, now_ms: int) -> None:
        """Move the marker behind the first rows of the batch and commit both; more follow."""
        self.commit_marker(Marker(batch_id, now_ms, self.settings.epoch, rows_done))

    def commit_marker(self, moved: Marker) -> None:
        """Set the marker and commit it with what was sent."""
        position = self._markers.offset(self.state_partition, moved)
        group = self._markers.group_metadata()
        # Deliveries first: an error there names the record.
        self.flush()
        self._guard(lambda: self._send_offset(position, group))
        sent_s = time.monotonic()
        # librdkafka goes on with a commit that timed out, up to CALL_TRIES times.
        limit_s = CALL_TIMEOUT_S if self.is_patient else HASTY_COMMIT_S
        self._guard(lambda: self._producer.commit_transaction(limit_s))
        self.is_spent = time.monotonic() - sent_s > SLOW_COMMIT_S
        self.marker = moved

    def _send_offset(self, position: TopicPartition, group: Any) -> None:
        """Add the marker to the transaction.

        When the group's coordinator restarts meanwhile, librdkafka waits for ever, whatever the
        timeout (#5456, #5511; 2.16.1). After the transaction's own the broker has aborted it.
        Another producer goes on at once, so an impatient one is given up soon.
        """
        limit_s = CALL_TIMEOUT_S if self.is_patient else HASTY_S
        timeout_s = min(limit_s, self.settings.transaction_timeout_ms / 1_000)
        producer = self._producer
        try:
            call_within(
                lambda: producer.send_offsets_to_transaction([position], group, timeout_s),
                timeout_s + HANGING_AFTER_S,
            )
        except HangingCallError as error:
            raise unanswered(
                f"The producer of state partition {self.state_partition} hangs."
            ) from error

    def close(self) -> None:
        """Close the connections; the successor's init ends an open transaction."""
        self._producer.purge()
        self._markers.close()

    def _configuration(self) -> dict[str, Any]:
        mine = self.settings
        return {
            **transactional_settings(
                mine.connection,
                mine.transactional_id(self.state_partition),
                mine.transaction_timeout_ms,
                mine.pipeline.record_bytes_max,
                self._rejections,
            ),
            **(self.native.client_settings if self.native is not None else {}),
            "delivery.report.only.error": True,
        }

    def _raise_rejections(self) -> None:
        rejections = list(self._rejections)
        if not rejections:
            return
        if any(one.code in FENCED_CODES for one in rejections):
            raise ProducerLostError(f"Fenced while writing: {rejections[0].text}.")
        if any(one.code in ABORTED_CODES for one in rejections):
            raise unanswered(f"The transaction was ended: {rejections[0].text}.")
        raise RejectedOutputError(rejections)

    def _guard(self, call: Callable[[], Result]) -> Result:
        """Call librdkafka; if it fails for good, this producer is lost."""
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
        error = ProducerLostError(
            f"The producer of state partition {self.state_partition} is lost: {cause.str()}.",
            remedy="Check the brokers, and that no second job runs over the same checkpoint.",
            code=cause.name(),
        )
        error.was_rejected = cause.txn_requires_abort()
        error.was_unanswered = cause.retriable() and not cause.fatal()
        return error


def transactional_settings(
    connection: Mapping[str, Any],
    transactional_id: str,
    timeout_ms: int,
    bytes_max: int,
    noted: list[Rejection],
) -> dict[str, Any]:
    """Return librdkafka's settings for a transactional producer.

    Args:
        connection: those that reach the brokers.
        transactional_id: the producer's.
        timeout_ms: after this, brokers abort its open transaction.
        bytes_max: the largest record that it sends.
        noted: gets what the brokers reject.
    """
    return {
        # Each transaction ends in a flush, which waits for no linger. With 5 ms an idempotent
        # producer's own thread took 5.5 us per message, with 50 ms 3.2 us.
        "linger.ms": 50,
        "queue.buffering.max.kbytes": QUEUE_KIBIBYTES_MAX,
        "queue.buffering.max.messages": 100_000,
        "message.max.bytes": bytes_max,
        # The Java client's and kafka-python's partitioner, so that a key stays where it was.
        "partitioner": "murmur2_random",
        "topic.metadata.propagation.max.ms": 2_000,  # waits for a vanished topic; else 30 s
        # A new partition must be known by when a half names it.
        "topic.metadata.refresh.interval.ms": 30_000,
        "allow.auto.create.topics": False,
        **connection,
        # By it a producer knows that a commit was sent once.
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        # One callback for all records: one per record would cost an allocation each. No method:
        # a producer that refers to its owner would only end with a garbage collection.
        "on_delivery": partial(note_rejection, noted, None),
    }


def note_rejection(
    noted: list[Rejection], record: SinkRecord | None, error: KafkaError | None, message: Message
) -> None:
    """Take a delivery report: note a record that a broker did not take."""
    if error is not None and error.code() not in PURGED_CODES:
        place = message.topic() or "", message.partition() or 0
        noted.append(Rejection(*place, error.code(), error.str(), record))
