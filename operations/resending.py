"""Sends the finals of committed halves that were refused because of their real topic.

The sink's own function makes the final. Final and note on the refused topic are one Kafka
transaction, so that a second operator sees what the first one sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from checkback.operations.admin_account import require_admin
from checkback.operations.operator_producer import TIMEOUT_S, abort, explained, open_producer
from checkback.operations.positions import Position
from checkback.operations.record_filter import RecordFilter
from checkback.operations.refused import RefusedRecord, refused_records
from checkback.operations.scanning import TopicScanner
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckbackError
from checkback.protocol.properties import Headers, text_value
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.records import OperatorFacts, action_headers, note_headers
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.kafka.errors import FENCED_CODES, PURGED_CODES, cause_of
from checkback.sinks.kafka.lookup import RecordReader, RecordSource
from checkback.sinks.kafka.real_topics import KnownTopic, TopicDirectory
from checkback.sinks.kafka.routing import Refusal, Router, as_target
from checkback.sinks.kafka.sink_record import SinkRecord, sent_headers
from checkback.sinks.kafka.source_record import SourceRecord

FINALS_PER_TRANSACTION: Final = 100


@dataclass(frozen=True, slots=True)
class PlannedFinal:
    """What would become of a refused record.

    Args:
        refused: the record.
        final: the final message; None where it can't be sent.
        obstacle: why it can't be sent, "" if it can.
    """

    refused: RefusedRecord
    final: SinkRecord | None = None
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Resent:
    """What became of a refused record.

    Args:
        refused: the record.
        to: topic:partition:offset of the final, "" if it was not sent.
        obstacle: why it was not sent, "" if it was.
    """

    refused: RefusedRecord
    to: str = ""
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class _KeptHalf:
    """A half as the refused topic keeps it; its own time is not kept."""

    refused: RefusedRecord

    def key(self) -> bytes | None:
        return self.refused.record.key

    def value(self) -> bytes | None:
        return self.refused.record.value

    def headers(self) -> Headers | None:
        return self.refused.told.original

    def timestamp(self) -> tuple[int, int]:
        return 0, self.refused.record.time_ms


class FinalPlanner:
    """Makes the finals of refused records, as the sink would make them now.

    Args:
        settings: topic names and sizes.
        connection: librdkafka's settings for the connection.
        halves: reads the half topic.
        half_ends: by partition, where the half topic ends.
        facts: who, why and when.
    """

    def __init__(
        self,
        settings: Settings,
        connection: dict[str, Any],
        halves: RecordSource,
        half_ends: dict[int, int],
        facts: OperatorFacts,
    ) -> None:
        self._names = settings.topics
        self._bytes_max = settings.max_message_bytes + 3 * HEADER_ROOM_BYTES
        self._halves, self._half_ends, self._facts = halves, half_ends, facts
        self._directory = TopicDirectory(AdminClient(connection))
        self._router = Router(self._names, self._find, facts.now_ms, measures_all=True)

    def plan(self, refused: RefusedRecord) -> PlannedFinal:
        """Return the final of a refused record, or why there is none.

        Raises:
            BrokerError: the brokers do not answer.
        """
        origin, obstacle = refused.origin, refused.obstacle(self._names.half)
        if obstacle or origin is None:
            return PlannedFinal(refused, obstacle=obstacle)
        half = self._half(refused, Position(origin.partition, origin.offset))
        if half is None:
            gone = "parts of it were left out, and the half itself is not found any more"
            return PlannedFinal(refused, obstacle=gone)
        try:
            made = self._router.final(half, origin)
        except CheckbackError:
            raise
        except Exception as error:  # what kept the sink from making it, may keep this from it, too
            return PlannedFinal(refused, obstacle=f"{type(error).__name__}: {error}")
        if isinstance(made, Refusal):
            return PlannedFinal(refused, obstacle=f"{made.reason.name}: {made.detail}")
        audit = action_headers(names.RESEND, str(refused.record.at), self._facts)
        made = made._replace(headers=[*made.headers, *audit])
        return PlannedFinal(refused, made, self._too_large(made))

    def _half(self, refused: RefusedRecord, at: Position) -> SourceRecord | None:
        """Return the half itself while its topic has it, else what the refused topic kept of it."""
        if at.offset < self._half_ends.get(at.partition, 0):
            found = dict(self._halves.read(at.partition, np.array([at.offset], np.int64)))
            half = found[at.offset]
            if half is not None and _is_same(half, refused):
                return half
        return None if refused.is_cut else _KeptHalf(refused)

    def _find(self, topic: str) -> KnownTopic | None:
        known = self._directory.find(topic)
        return None if known is None else as_target(topic, known, self._names, self._bytes_max)

    def _too_large(self, final: SinkRecord) -> str:
        known = self._find(final.topic)
        size = record_bytes_max(final.key, final.value, final.headers)
        if known is None or size <= known.record_batch_bytes_max:
            return ""
        return f"{final.topic} takes {known.record_batch_bytes_max} bytes, this may need {size}"


class Resender:
    """Sends finals. Creating a Resender aborts what another operator has begun to send.

    Args:
        settings: topic names, sizes and the deployment's name.
        connection: librdkafka's settings for the connection.

    Raises:
        BrokerError: the brokers do not answer, or do not allow this.
    """

    def __init__(self, settings: Settings, connection: dict[str, Any]) -> None:
        self._topic = settings.topics.refused
        self._open: Callable[[], Producer] = lambda: open_producer(settings, connection, "resend")
        self._producer = self._open()

    def resend(self, planned: Sequence[PlannedFinal], facts: OperatorFacts) -> list[Resent]:
        """Write a final and a note for each record that can be sent.

        When the broker rejects one of several, each is tried by itself.

        Args:
            planned: at most FINALS_PER_TRANSACTION.
            facts: who, why and when.

        Raises:
            FencedError: another operator sends at the same time.
            BrokerError: Kafka did not confirm in time. The next Resender ends the transaction, and
                then the notes show whether it was committed.
        """
        sendable = [one for one in planned if one.final is not None and not one.obstacle]
        left = [Resent(one.refused, obstacle=one.obstacle) for one in planned if one.obstacle]
        rejections = self._try(sendable, facts)
        if isinstance(rejections, list):
            return rejections + left
        if len(sendable) == 1:
            return [Resent(sendable[0].refused, obstacle=rejections), *left]
        return [sent for one in sendable for sent in self.resend([one], facts)] + left

    def _try(self, planned: Sequence[PlannedFinal], facts: OperatorFacts) -> list[Resent] | str:
        """Write all of these, or none; then return what the broker said of one that it rejected."""
        if not planned:
            return []
        rejections: list[str] = []
        try:
            self._producer.begin_transaction()
            sent = self._write(planned, facts, rejections)
            if not rejections:
                self._producer.commit_transaction(TIMEOUT_S)
                return sent
        except KafkaException as error:
            if not rejections:
                abort(self._producer)
                raise explained(error, "resend") from error
        # A producer that was rejected can't be used again: the next one ends its transaction.
        self._producer.purge()
        self._producer = self._open()
        return rejections[0]

    def _write(
        self, planned: Sequence[PlannedFinal], facts: OperatorFacts, rejections: list[str]
    ) -> list[Resent]:
        stored: dict[int, str] = {}
        for number, one in enumerate(planned):
            if one.final is not None:
                self._produce(one.final, number, stored, rejections)
        self._producer.flush(TIMEOUT_S)
        if rejections:
            return []
        if len(stored) < len(planned):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not all finals were stored"))
        sent = [Resent(one.refused, stored[number]) for number, one in enumerate(planned)]
        for written in sent:
            self._produce_note(written, facts)
        return sent

    def _produce(
        self, final: SinkRecord, number: int, stored: dict[int, str], rejections: list[str]
    ) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                stored[number] = f"{message.topic()}:{message.partition()}:{message.offset()}"
            elif error.code() not in PURGED_CODES | FENCED_CODES:
                rejections.append(f"{final.topic}: {error.str()}")

        try:
            self._producer.produce(
                final.topic, final.value, final.key, final.partition,
                headers=sent_headers(final.headers), timestamp=final.timestamp_ms,
                on_delivery=delivered,
            )  # fmt: skip
        except KafkaException as error:
            if cause_of(error).code() in FENCED_CODES:
                raise
            rejections.append(f"{final.topic}: {cause_of(error).str()}")
        except (ValueError, TypeError, OverflowError) as error:
            rejections.append(f"{final.topic}: {error}")

    def _produce_note(self, resent: Resent, facts: OperatorFacts) -> None:
        refused = resent.refused
        source = str(refused.record.at)
        headers = note_headers(refused.told.original, names.RESEND, source, resent.to, facts)
        self._producer.produce(
            self._topic, None, refused.record.key, refused.record.at.partition,
            headers=sent_headers(headers),
        )  # fmt: skip


def open_resender(settings: Settings, *, is_certain: bool) -> Resender | None:
    """Return what sends finals; None for a command that only shows what it would send.

    Both take an admin account where access is controlled: the pipeline verifies the records that
    other commands write, but never sees these finals.

    Args:
        settings: the account, the rules, topic names, sizes and the deployment's name.
        is_certain: whether finals are to be sent.

    Raises:
        ConfigurationError: access control is on, and no admin account is set.
        BrokerError: the brokers do not answer, or do not allow this.
    """
    require_admin(settings)
    if not is_certain:
        return None
    return Resender(settings, settings.connection())


def chosen_records(
    scanner: TopicScanner, settings: Settings, wanted: RecordFilter
) -> list[RefusedRecord]:
    """Return the refused records that a filter chooses, the oldest refusal first.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    found = refused_records(scanner.scan(settings.topics.refused))
    return [one for one in found if wanted.takes(one)]


def resend_records(
    scanner: TopicScanner,
    settings: Settings,
    records: Sequence[RefusedRecord],
    facts: OperatorFacts,
    sender: Resender | None,
) -> list[Resent]:
    """Send what can be sent.

    Args:
        scanner: reads topics.
        settings: brokers, topic names and sizes.
        records: the refused records.
        facts: who, why and when.
        sender: sends them; None only says what would be sent.

    Raises:
        FencedError: another operator sends at the same time.
        BrokerError: Kafka refused, or did not confirm in time.
    """
    connection = settings.connection()
    half_topic = settings.topics.half
    ends = {one.partition: one.offset for one in scanner.ends([half_topic])}
    halves = RecordReader(connection, half_topic)
    done: list[Resent] = []
    try:
        planner = FinalPlanner(settings, connection, halves, ends, facts)
        for first in range(0, len(records), FINALS_PER_TRANSACTION):
            planned = [planner.plan(one) for one in records[first : first + FINALS_PER_TRANSACTION]]
            if sender is None:
                done += [Resent(one.refused, obstacle=one.obstacle) for one in planned]
            else:
                done += sender.resend(planned, facts)
    finally:
        halves.close()
    return done


def _is_same(half: SourceRecord, refused: RefusedRecord) -> bool:
    """Tell whether a half is the one that was refused: the topic may have been made again."""
    headers = half.headers()
    if headers is None:
        return False
    found = [text_value(headers, name) or "" for name in (names.PGROUP, names.UNIQ_KEY)]
    return found == [refused.group, refused.transaction_id]
