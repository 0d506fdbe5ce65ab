"""Sends the finals of committed halves that were refused because of their real topic.

The sink's own function makes the final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient

from checkback.operations.operator_account import require_admin
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.noted_transaction import (
    RECORDS_PER_TRANSACTION,
    NotedTransaction,
    Successor,
    Written,
)
from checkback.operations.parked.refused import RefusedRecord, refused_records
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import TopicScanner
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckbackError
from checkback.protocol.properties import Headers, text_value
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.records import OperatorFacts, action_headers
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic, TopicDirectory
from checkback.sinks.kafka.read.record_reader import RecordReader, RecordSource
from checkback.sinks.records.router import Refusal, Router, as_target
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.records.source_record import SourceRecord


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
class Resending:
    """What was sent, or would be.

    Args:
        resent: the records that have a final.
        already: those that had been sent again before.
        stuck: those that can't be sent, each with its obstacle.
        skipped: how many others the filter chose that never have a final.
    """

    resent: tuple[Resent, ...]
    already: tuple[RefusedRecord, ...]
    stuck: tuple[Resent, ...]
    skipped: int


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
    """Makes the finals of refused records, as the sink would make them now."""

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


def chosen_records(
    scanner: TopicScanner, settings: Settings, wanted: RecordFilter
) -> list[RefusedRecord]:
    """Return the refused records that a filter chooses, the oldest refusal first.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    found = refused_records(scanner.scan(settings.topics.refused))
    return [one for one in found if wanted.takes(one)]


def resend(
    scanner: TopicScanner,
    settings: Settings,
    wanted: RecordFilter,
    facts: OperatorFacts,
    *,
    is_certain: bool,
    is_forced: bool = False,
) -> Resending:
    """Send the refused finals that a filter chooses and that were not sent again yet.

    Without `is_certain` only return what would be sent. `is_forced` sends finals once more that
    were sent again before.

    It takes an admin account where access is controlled, also only to say what would be sent: the
    pipeline verifies the records that other commands write, but never sees these finals.

    Raises:
        NotFoundError: the filter names a record that is not there.
        ConfigurationError: access control is on, and no admin account is set.
        FencedError: another operator sends at the same time.
        BrokerError: Kafka refused, or did not confirm in time.
    """
    require_admin(settings)
    # Before reading the records: this ends what another operator has begun to send.
    transaction = NotedTransaction(settings, names.RESEND, "resend") if is_certain else None
    found = chosen_records(scanner, settings, wanted)
    wanted.require_found(settings.topics.refused, "refused", found)
    already = [record for record in found if record.resent_to and not is_forced]
    left = [record for record in found if is_forced or not record.resent_to]
    half_topic = settings.topics.half
    ends = {one.partition: one.offset for one in scanner.ends([half_topic])}
    connection = settings.connection()
    halves = RecordReader(connection, half_topic)
    done: list[Resent] = []
    try:
        planner = FinalPlanner(settings, connection, halves, ends, facts)
        for first in range(0, len(left), RECORDS_PER_TRANSACTION):
            some = left[first : first + RECORDS_PER_TRANSACTION]
            done += _send([planner.plan(record) for record in some], transaction, facts)
    finally:
        halves.close()
    # Who chooses by a filter means what has a final; a refused op never does.
    has_final = [one for one in done if wanted.name or not one.refused.obstacle(half_topic)]
    return Resending(
        tuple(one for one in done if not one.obstacle),
        tuple(already),
        tuple(one for one in has_final if one.obstacle),
        len(done) - len(has_final),
    )


def _send(
    planned: Sequence[PlannedFinal], transaction: NotedTransaction | None, facts: OperatorFacts
) -> list[Resent]:
    done = [Resent(one.refused, obstacle=one.obstacle) for one in planned]
    if transaction is None:
        return done
    finals = {
        one.refused.record.at: Successor(one.refused.record, one.refused.told.original, one.final)
        for one in planned
        if one.final is not None and not one.obstacle
    }
    written = {
        one.successor.parked.at: one for one in transaction.write(list(finals.values()), facts)
    }
    return [
        one if (sent := written.get(one.refused.record.at)) is None else _resent(one.refused, sent)
        for one in done
    ]


def _resent(refused: RefusedRecord, sent: Written) -> Resent:
    rejected = f"{sent.successor.record.topic}: {sent.rejection}" if sent.rejection else ""
    return Resent(refused, sent.to, rejected)


def _is_same(half: SourceRecord, refused: RefusedRecord) -> bool:
    """Tell whether a half is the one that was refused: the topic may have been made again."""
    headers = half.headers()
    if headers is None:
        return False
    found = [text_value(headers, name) or "" for name in (names.PGROUP, names.UNIQ_KEY)]
    return found == [refused.group, refused.transaction_id]
