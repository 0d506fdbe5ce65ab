"""Sends the finals of committed halves that were refused because of their real topic.

The sink's own function makes the final.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient

from checkback.operations.operator_account import require_admin
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.noted_transaction import (
    ActionReport,
    NotedTransaction,
    RecordAction,
)
from checkback.operations.parked.refused import RefusedRecord, refused_records
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import TopicScanner
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckbackError
from checkback.protocol.properties import text_value
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.records import OperatorFacts, action_headers
from checkback.protocol.refusals import RecordOrigin
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.topic_directory import KnownTopic, TopicDirectory
from checkback.sinks.kafka.read.record_reader import RecordReader, RecordSource
from checkback.sinks.records.router import Refusal, Router, as_target
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.records.source_record import RecordCopy, SourceRecord


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
        self._bytes_max = settings.record_bytes_max
        self._halves, self._half_ends, self._facts = halves, half_ends, facts
        self._directory = TopicDirectory(AdminClient(connection))
        self._router = Router(self._names, self._find, facts.now_ms, measures_all=True)

    def plan(self, refused: RefusedRecord) -> RecordAction[RefusedRecord]:
        """Return the final of a refused record, or why there is none."""
        made = self._made(refused)
        if isinstance(made, str):
            return RecordAction(refused, obstacle=made)
        audit = action_headers(names.RESEND, str(refused.record.at), self._facts)
        made = made._replace(headers=[*made.headers, *audit])
        too_large = self._too_large(made)
        return RecordAction(refused, None if too_large else made, obstacle=too_large)

    def _made(self, refused: RefusedRecord) -> SinkRecord | str:
        origin, obstacle = refused.origin, refused.obstacle(self._names.half)
        if obstacle or origin is None:
            return obstacle
        half = self._half(refused, Position(origin.partition, origin.offset))
        if half is None:
            return "parts of it were left out, and the half itself is not found any more"
        try:
            made = self._router.final(half, origin)
        except CheckbackError:
            raise
        except Exception as error:  # what kept the sink from making it, may keep this from it, too
            return f"{type(error).__name__}: {error}"
        return f"{made.reason.name}: {made.detail}" if isinstance(made, Refusal) else made

    def _half(self, refused: RefusedRecord, at: Position) -> SourceRecord | None:
        """Return the half itself while its topic has it, else what the refused topic kept of it."""
        if at.offset < self._half_ends.get(at.partition, 0):
            found = dict(self._halves.read(at.partition, np.array([at.offset], np.int64)))
            half = found[at.offset]
            if half is not None and _is_same(half, refused):
                return half
        return None if refused.is_cut else _kept_half(refused)

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
    scanner: TopicScanner, topics: TopicNames, wanted: RecordFilter
) -> list[RefusedRecord]:
    """Return the refused records that a filter chooses, the oldest refusal first."""
    found = refused_records(scanner.scan(topics.refused))
    return [one for one in found if wanted.takes(one)]


def resend(
    scanner: TopicScanner,
    settings: Settings,
    wanted: RecordFilter,
    facts: OperatorFacts,
    *,
    is_certain: bool,
    is_forced: bool = False,
) -> ActionReport[RefusedRecord]:
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
    found = chosen_records(scanner, settings.topics, wanted)
    wanted.require_found(settings.topics.refused, "refused", found)
    already = [record for record in found if record.resent_to and not is_forced]
    left = [record for record in found if is_forced or not record.resent_to]
    half_topic = settings.topics.half
    ends = {one.partition: one.offset for one in scanner.ends([half_topic])}
    connection = settings.connection()
    with closing(RecordReader(connection, half_topic)) as halves:
        planner = FinalPlanner(settings, connection, halves, ends, facts)
        planned = map(planner.plan, left)
        # Without a transaction no body is kept.
        done = (
            [replace(one, successor=None) for one in planned]
            if transaction is None
            else transaction.write_all(planned, facts)
        )
    # A filter means what has a final; a refused op never does.
    has_final = [one for one in done if wanted.name or not one.parked.obstacle(half_topic)]
    return ActionReport(
        [one for one in done if not one.obstacle],
        already,
        [one for one in has_final if one.obstacle],
        len(done) - len(has_final),
    )


def _kept_half(refused: RefusedRecord) -> RecordCopy:
    """Return the half as the refused topic keeps it; its own time is not kept."""
    record = refused.record
    place = RecordOrigin(record.topic, *record.at)
    content, stored = (record.key, record.value), (0, record.time_ms)
    return RecordCopy(place, "", content, refused.original, stored)


def _is_same(half: SourceRecord, refused: RefusedRecord) -> bool:
    """Tell whether a half is the one that was refused: the topic may have been made again."""
    headers = half.headers()
    if headers is None:
        return False
    found = [text_value(headers, name) or "" for name in (names.PGROUP, names.UNIQ_KEY)]
    return found == [refused.group, refused.transaction_id]
