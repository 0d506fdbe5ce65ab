"""The relay's transactional producers, which take turns (rules 1 and 11).

A producer that begins right after its own commit waits some 20 ms, until the brokers have ended
that transaction on all its partitions. So three producers take turns; each begins after its
predecessor has committed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from checkback.protocol.errors import BrokerError, FencedError
from checkback.sinks.kafka.transaction.errors import (
    ABORTED_CODES,
    FENCED_CODES,
    UNQUEUED_CODES,
    Rejection,
    cause_of,
)
from checkback.sinks.kafka.transaction.init import initialise
from checkback.sinks.kafka.transaction.limited_call import HangingCallError, call_within
from checkback.sinks.kafka.transaction.producer import (
    FLUSH_SLICE_S,
    HANGING_AFTER_S,
    SLOW_COMMIT_S,
    note_rejection,
    transactional_settings,
)
from checkback.sinks.kafka.transaction.queueing import queue
from checkback.sinks.records.sink_record import SinkRecord

PRODUCERS: Final = 3
TRANSACTION_TIMEOUT_MS: Final = 5_000
"""After this, brokers abort the open transaction of a relay that does not come back."""
CALL_S: Final = 5.0
ABORT_S: Final = 1.0
INIT_S: Final = 30.0
TIMED_OUT_S: Final = TRANSACTION_TIMEOUT_MS / 1_000 - 1.0
"""Brokers also fence a producer when its transaction has timed out."""
FENCES_S: Final = 60.0
"""A relay whose producers are all fenced within this time has another beside it with its number.
Once or twice happens without: when a coordinator died amid a commit, its successor fenced the
producer."""
OLD_GENERATION: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)


ENDED_CODES: Final = ABORTED_CODES | FENCED_CODES
"""They have nothing against the record, and so nothing against its topic."""


class GroupFailedError(Exception):
    """A transaction failed, or its outcome is unknown.

    Attributes:
        topics: the topics that took no records.
    """

    def __init__(self, why: str, topics: frozenset[str] = frozenset()) -> None:
        super().__init__(why)
        self.topics = topics


FAILURES: Final = (
    GroupFailedError, HangingCallError, KafkaException, SystemError, TypeError, ValueError,
    OverflowError,
)  # fmt: skip


class PartitionsLostError(Exception):
    """The group's coordinator refused the position: the partitions have another owner."""


class StoredMark(NamedTuple):
    """The offset of a mark, and the time at which the broker appended it."""

    offset: int
    time_ms: int


@dataclass(slots=True)
class Turns:
    """Writes groups, each in one Kafka transaction.

    Making it initialises all producers: this aborts open transactions of a relay with the same
    number.

    Args:
        connection: librdkafka settings that reach the brokers, secrets included.
        transactional_ids: one for each producer.
        topic: any existing topic.
        message_bytes_max: the largest record that any of Checkback's topics takes.
        batch_bytes_max: the largest batch that the topic takes.

    Raises:
        BrokerError: the brokers refuse, or do not answer.
    """

    connection: Mapping[str, Any]
    transactional_ids: Sequence[str]
    topic: str
    message_bytes_max: int
    batch_bytes_max: int
    _producers: dict[str, _TurnProducer] = field(default_factory=dict)
    _turn: int = 0
    _fences_s: deque[float] = field(default_factory=lambda: deque(maxlen=PRODUCERS))

    def __post_init__(self) -> None:
        for transactional_id in self.transactional_ids:
            self._producers[transactional_id] = self._initialised(transactional_id)

    def write(
        self,
        records: Sequence[SinkRecord],
        marks: Mapping[int, SinkRecord],
        positions: Sequence[TopicPartition],
        group_metadata: Any,
    ) -> dict[int, StoredMark]:
        """Write records, then marks, and the group's positions, in one Kafka transaction.

        Args:
            records: what is written first.
            marks: the mark of each partition.
            positions: the next op of each partition.
            group_metadata: the consumer group's, from the assignment of the partitions.

        Returns:
            Where each partition's mark stands.

        Raises:
            GroupFailedError: the transaction failed, or its outcome is unknown.
            PartitionsLostError: the partitions have another owner.
            FencedError: another relay has the same number.
            BrokerError: no producer can be initialised.
        """
        turn = self.transactional_ids[self._turn]
        self._turn = (self._turn + 1) % len(self.transactional_ids)
        producer = self._producers.pop(turn, None) or self._initialised(turn)
        begun_s = time.monotonic()
        try:
            stored = producer.write(records, marks, positions, group_metadata)
        except FAILURES as error:
            if not isinstance(error, HangingCallError):
                producer.give_up()
            raise self._failure(error, producer, time.monotonic() - begun_s) from error
        if producer.is_spent:
            producer.give_up()
        else:
            self._producers[turn] = producer
        return stored

    def close(self) -> None:
        """Close all connections."""
        for producer in self._producers.values():
            producer.give_up()
        self._producers.clear()

    def _initialised(self, transactional_id: str) -> _TurnProducer:
        sizes = self.message_bytes_max, self.batch_bytes_max
        made = _TurnProducer(self.connection, transactional_id, *sizes)
        try:
            initialise(made.producer, self.topic, INIT_S)
        except KafkaException as error:
            cause = cause_of(error)
            raise BrokerError(
                f"The producer {transactional_id} can't be initialised: {cause.str()}.",
                remedy="Check the brokers, and the relay's rights on its transactional ids.",
                code=cause.name(),
            ) from error
        return made

    def _failure(self, error: BaseException, producer: _TurnProducer, open_s: float) -> Exception:
        """Return what the failure of a transaction means for its group."""
        rejected = frozenset(
            one.topic for one in producer.rejections if one.code not in ENDED_CODES
        )
        if not isinstance(error, (KafkaException, SystemError)):
            return GroupFailedError(str(error) or type(error).__name__, rejected)
        cause = cause_of(error)
        if cause.code() in OLD_GENERATION:
            return PartitionsLostError(cause.str())
        if cause.code() in FENCED_CODES and open_s < TIMED_OUT_S:
            self._fences_s.append(time.monotonic())
            is_full = len(self._fences_s) == PRODUCERS
            if is_full and self._fences_s[-1] - self._fences_s[0] < FENCES_S:
                return FencedError(
                    "Another relay writes with the same number.",
                    remedy="Give each relay of a deployment its own --instance.",
                )
        return GroupFailedError(cause.str(), rejected)


class _TurnProducer:
    """A transactional producer of the relay.

    Attributes:
        is_spent: whether a request may have been sent twice. A late duplicate that ends a
            transaction could commit the next one half way (KIP-890): only a later epoch shuts it
            out.
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        transactional_id: str,
        bytes_max: int,
        batch_bytes_max: int,
    ) -> None:
        self.is_spent = False
        self.rejections: list[Rejection] = []
        self._connection_errors: list[KafkaError] = []
        settings = transactional_settings(
            connection, transactional_id, TRANSACTION_TIMEOUT_MS, bytes_max, self.rejections
        )
        own = {
            # Records leave while the position is sent; the first waits for its partition anyway.
            "linger.ms": 0,
            "batch.size": batch_bytes_max,
            "error_cb": self._connection_errors.append,
        }
        self.producer = Producer({**settings, **own})

    def write(
        self,
        records: Sequence[SinkRecord],
        marks: Mapping[int, SinkRecord],
        positions: Sequence[TopicPartition],
        group_metadata: Any,
    ) -> dict[int, StoredMark]:
        """Write as `Turns.write` does; raise librdkafka's errors."""
        producer, stored = self.producer, dict[int, StoredMark]()
        self.rejections.clear()
        self._connection_errors.clear()
        producer.begin_transaction()
        for record in records:
            self._queue(record)
        for number, mark in marks.items():
            self._queue(mark, partial(_stored, stored, self.rejections, number))
        producer.poll(0)
        call_within(
            lambda: producer.send_offsets_to_transaction([*positions], group_metadata, CALL_S),
            CALL_S + HANGING_AFTER_S,
        )
        self._flush()
        sent_s = time.monotonic()
        producer.commit_transaction(CALL_S)
        took_s = time.monotonic() - sent_s
        self.is_spent = took_s > SLOW_COMMIT_S or bool(self._connection_errors)
        return stored

    def _queue(self, record: SinkRecord, on_delivery: Any = None) -> None:
        try:
            queue(self.producer, record, on_delivery)
        except KafkaException as error:
            cause = cause_of(error)
            if cause.code() in UNQUEUED_CODES:
                rejection = Rejection(record.topic, record.partition, cause.code(), cause.str())
                self.rejections.append(rejection)
            raise

    def _flush(self) -> None:
        """Wait for the reports of all records, as the sink does: in slices."""
        until_s = time.monotonic() + CALL_S
        while self.producer.flush(FLUSH_SLICE_S):
            if self.rejections:
                raise GroupFailedError(self.rejections[0].text)
            if time.monotonic() > until_s:
                raise GroupFailedError("the brokers did not take the records in time")

    def give_up(self) -> None:
        """Drop queued records, and abort an open transaction: readers of its topics wait for it.

        If that fails, the next init of the transactional id aborts it.
        """
        self.producer.purge()
        with suppress(KafkaException, SystemError):
            self.producer.abort_transaction(ABORT_S)


def _stored(
    stored: dict[int, StoredMark],
    noted: list[Rejection],
    number: int,
    error: KafkaError | None,
    message: Message,
) -> None:
    note_rejection(noted, None, error, message)
    if error is None:
        stored[number] = StoredMark(message.offset() or 0, message.timestamp()[1])
