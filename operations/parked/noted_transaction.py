"""Writes successors of parked records, each with a note, in Kafka transactions.

A parked record is one that waits on a topic for an operator: a discarded half, a refused record.
Its successor (a new half, a final message) and a note beside it are one transaction, so that a
second operator sees what the first one did. A deployment has one transactional id per command, so
one operator at a time runs it: the second operator's start aborts the first one's open transaction.
Only after that does a command read what was done before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Generic, TypeVar

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from checkback.operations.parked.discarded import DiscardedHalf
from checkback.operations.parked.refused import RefusedRecord
from checkback.operations.topics.position import Position
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, FencedError, PrerequisiteError
from checkback.protocol.properties import ActionNames
from checkback.protocol.records import OperatorFacts, note_headers
from checkback.protocol.signed_content import is_in_time
from checkback.sinks.kafka.transaction.errors import FENCED_CODES, PURGED_CODES, cause_of
from checkback.sinks.kafka.transaction.init import initialise
from checkback.sinks.records.sink_record import SinkRecord, sent_headers

RECORDS_PER_TRANSACTION: Final = 100
TIMEOUT_S: Final = 60.0


Parked = TypeVar("Parked", bound=DiscardedHalf | RefusedRecord)


@dataclass(frozen=True, slots=True)
class RecordAction(Generic[Parked]):
    """An operator's action on one parked record: first planned, then done.

    Args:
        successor: the record to write; None where there can be none, or nothing is to be written.
        signed_at_ms: when the successor was signed, None without a signature.
        to: where the successor is, as the note names it; "" if it was not written.
        obstacle: why it can't be written, "" if it can.
    """

    parked: Parked
    successor: SinkRecord | None = None
    signed_at_ms: float | None = None
    to: str = ""
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class ActionReport(Generic[Parked]):
    """What an operator's action did, or would do.

    Args:
        done: the records that have a successor now, or would have one.
        already: those that had one before.
        stuck: those that can't have one, each with its obstacle.
        skipped: how many others the filter chose that never have one.
    """

    done: Sequence[RecordAction[Parked]]
    already: Sequence[Parked]
    stuck: Sequence[RecordAction[Parked]] = ()
    skipped: int = 0


class NotedTransaction:
    """Writes successors. Creating one aborts what another operator has begun.

    Args:
        command: what the operator does; part of the transactional id.

    Raises:
        BrokerError: the brokers do not answer, or do not allow this.
    """

    def __init__(self, settings: Settings, action: ActionNames, command: str) -> None:
        self._action, self._command = action, command
        self._open: Callable[[], Producer] = lambda: open_producer(settings, command)
        self._producer = self._open()

    def write_all(
        self, planned: Iterable[RecordAction[Parked]], facts: OperatorFacts
    ) -> list[RecordAction[Parked]]:
        """Write the planned successors and their notes; return each action with its result.

        RECORDS_PER_TRANSACTION are written together. When the brokers reject one of them, each is
        written by itself.

        Raises:
            FencedError: another operator does the same at the same time.
            BrokerError: Kafka refused, or did not confirm in time. The next start ends the
                transaction, and then the notes show whether it was committed.
            PrerequisiteError: the pipeline would refuse what the clock of this machine has signed.
        """
        left, done = iter(planned), list[RecordAction[Parked]]()
        while part := list(islice(left, RECORDS_PER_TRANSACTION)):
            written = iter(self._write([one for one in part if one.successor is not None], facts))
            done += [one if one.successor is None else next(written) for one in part]
        return done

    def _write(
        self, actions: list[RecordAction[Parked]], facts: OperatorFacts
    ) -> list[RecordAction[Parked]]:
        if not actions:
            return []
        rejections: list[str] = []
        try:
            self._producer.begin_transaction()
            written = self._written(actions, facts, rejections)
            if not rejections:
                self._producer.commit_transaction(TIMEOUT_S)
                return written
        except KafkaException as error:
            if not rejections:
                self._abort()
                raise explained(error, self._command) from error
        except PrerequisiteError:
            self._abort()
            raise
        # A producer that was rejected can't be used again: the next one ends its transaction.
        self._producer.purge()
        self._producer = self._open()
        if len(actions) == 1:
            return [replace(actions[0], obstacle=rejections[0])]
        return [written for one in actions for written in self._write([one], facts)]

    def _abort(self) -> None:
        with suppress(KafkaException):  # brokers that can't be asked do it themselves
            self._producer.abort_transaction(TIMEOUT_S)

    def _written(
        self, actions: list[RecordAction[Parked]], facts: OperatorFacts, rejections: list[str]
    ) -> list[RecordAction[Parked]]:
        stored: dict[int, Message] = {}
        for number, action in enumerate(actions):
            if action.successor is not None:
                self._produce(action.successor, number, stored, rejections)
        self._producer.flush(TIMEOUT_S)
        if rejections:
            return []
        if len(stored) < len(actions):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not all records were stored"))
        written = []
        for number, action in enumerate(actions):
            _require_timely(action.signed_at_ms, stored[number])
            written.append(replace(action, to=self._target(stored[number])))
        for one in written:
            self._produce_note(one, facts)
        return written

    def _produce(
        self, record: SinkRecord, number: int, stored: dict[int, Message], rejections: list[str]
    ) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                stored[number] = message
            elif error.code() not in PURGED_CODES | FENCED_CODES:
                rejections.append(f"{record.topic}: {error.str()}")

        try:
            self._producer.produce(
                topic=record.topic, value=record.value, key=record.key, partition=record.partition,
                headers=sent_headers(record.headers), timestamp=record.timestamp_ms,
                on_delivery=delivered,
            )  # fmt: skip
        except KafkaException as error:
            if cause_of(error).code() in FENCED_CODES:
                raise
            rejections.append(f"{record.topic}: {cause_of(error).str()}")
        except (ValueError, TypeError, OverflowError) as error:
            rejections.append(f"{record.topic}: {error}")

    def _target(self, message: Message) -> str:
        at = Position(message.partition() or 0, message.offset() or 0)
        return str(at) if self._action is names.RESUME else f"{message.topic()}:{at}"

    def _produce_note(self, written: RecordAction[Parked], facts: OperatorFacts) -> None:
        record, original = written.parked.record, written.parked.original
        headers = note_headers(original, self._action, str(record.at), written.to, facts)
        self._producer.produce(
            topic=record.topic, value=None, key=record.key, partition=record.at.partition,
            headers=sent_headers(headers),
        )  # fmt: skip


def open_producer(settings: Settings, command: str) -> Producer:
    """Return a producer, once its predecessor's transaction is ended.

    Raises:
        BrokerError: the brokers do not answer, or do not allow this.
    """
    producer = Producer(
        {
            **settings.connection(),
            "partitioner": "murmur2_random",  # like all our other producers
            "transactional.id": f"{settings.application_id}-{command}",
            "message.max.bytes": settings.record_bytes_max,
            "delivery.timeout.ms": int(TIMEOUT_S * 1_000),
            "transaction.timeout.ms": int(TIMEOUT_S * 1_000),
            "allow.auto.create.topics": False,
        }
    )
    try:
        initialise(producer, settings.topics.half, TIMEOUT_S)
    except KafkaException as error:
        raise explained(error, command) from error
    return producer


def explained(error: KafkaException, command: str) -> BrokerError | FencedError:
    """Return what an operator reads when a transaction failed."""
    cause = cause_of(error)
    if cause.code() in FENCED_CODES:
        return FencedError(
            f"Another operator began to {command} messages.",
            remedy="List the messages again to see what was done, then try again.",
        )
    return BrokerError(
        f"Kafka did not take what was to {command}: {cause.str()}.",
        remedy="Check the brokers and that this user may write to these topics"
        " with this deployment's transactional ids.",
        code=cause.name(),
    )


def _require_timely(signed_at_ms: float | None, stored: Message) -> None:
    if signed_at_ms is None:
        return
    kind, stored_at_ms = stored.timestamp()
    if kind == TIMESTAMP_LOG_APPEND_TIME and not is_in_time(signed_at_ms, stored_at_ms):
        raise PrerequisiteError(
            "The clock of this machine is more than 5 minutes from the brokers', and the pipeline"
            " would refuse what it has signed. Nothing was written.",
            remedy="Set the clock by NTP.",
        )
