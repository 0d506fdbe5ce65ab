"""What the console asks Kafka: groups and their live members, lag, the doctor's checks, records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checkback.checkpoints.pending.pending_halves import PendingGroup
from checkback.console.pending_view import PendingView, checkpoint_readable
from checkback.operations.doctor.broker_checks import TIMEOUT_S, BrokerChecks
from checkback.operations.doctor.judgements import Diagnosis, GroupFacts, judge_group
from checkback.operations.parked.discarded import DiscardedHalf, discarded_halves
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.parked.refused import RefusedRecord
from checkback.operations.topics.lag import (
    ReadPosition,
    oldest_unread_ms,
    published_offsets,
    read_positions,
    topic_ends,
)
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord, TopicScanner
from checkback.operations.transactions.finder import open_finder, record_at
from checkback.operations.transactions.history import (
    HistoryEvent,
    TransactionHistory,
    refused_event,
)
from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    BrokerError,
    CheckbackError,
    NotFoundError,
)
from checkback.protocol.refusals import refusal_facts
from checkback.sinks.kafka.cluster.transient_errors import said_by
from checkback.sinks.kafka.read.record_reader import RecordReader
from checkback.streaming.reports.group_members import live_members

SHOWN_RECORDS_MAX: Final = 500
SEARCHED_OFFSETS_MAX: Final = 10_000
"""Of each partition, the last ones: a page with a million records would load for minutes, and their
bodies would fill the console's memory."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A producer group."""

    facts: GroupFacts
    finding: Diagnosis
    is_counted: bool = True

    @property
    def says(self) -> str:
        """What the finding says besides what is pending, which has columns of its own."""
        return self.finding.says.partition(": ")[2]


@dataclass(slots=True)
class KafkaFacts:
    """Asks Kafka; several threads may ask at once."""

    settings: Settings
    pending: PendingView
    now_ms: Callable[[], int]
    _admin: Any = field(default=None)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Return the facts; nothing is read yet.

        Raises:
            ConfigurationError, KafkaException: an address or a setting of Kafka's that no broker
                has to be asked about. Later it would only be one more source that does not answer.
        """
        facts = cls(settings, PendingView(settings), now_ms)
        if settings.bootstrap_servers:
            facts.admin()
        return facts

    def groups(self) -> list[GroupRow]:
        """Return the groups that have pending halves or a check topic."""
        counted = self._counted()
        pending = counted or {}
        try:
            known = self._topics()
            prefix = self.settings.topics.check("")
            asked = {one.removeprefix(prefix) for one in known if one.startswith(prefix)}
            found = [
                self._group(one, pending.get(one), known, is_counted=counted is not None)
                for one in sorted(asked | {*pending})
            ]
        except KafkaException as error:
            raise BrokerError(
                f"The producer groups can't be listed: {said_by(error)}.",
                remedy="Check the brokers, and this user's rights.",
            ) from error
        return sorted(found, key=lambda row: -row.facts.pending)

    def _counted(self) -> dict[str, PendingGroup] | None:
        """Return what is pending by group, None where the checkpoint can't be read."""
        try:
            return dict(self.pending.groups())
        except CheckbackError:  # what is wrong with it is said beside the figures
            return None

    def group(self, name: str) -> GroupFacts:
        """Return what is known of one group's live members; nothing, if Kafka does not say it."""
        try:
            return self._group(name, None, self._topics(), is_counted=False).facts
        except KafkaException:
            return GroupFacts(name, 0, 0, has_check_topic=True, members=None)

    def _topics(self) -> set[str]:
        return set(self.admin().list_topics(timeout=TIMEOUT_S).topics)

    def _group(
        self, name: str, group: PendingGroup | None, topics: set[str], *, is_counted: bool
    ) -> GroupRow:
        check_topic = self.settings.topics.check(name)
        has_topic = bool(name) and check_topic in topics
        members = live_members(self.admin(), check_topic) if has_topic else 0
        if group is None:
            facts = GroupFacts(name, 0, 0, has_topic, members)
        else:
            age_ms = max(0, self.now_ms() - group.oldest_ms)
            facts = GroupFacts(name, group.pending, age_ms, has_topic, members, group.asked_again)
        return GroupRow(facts, judge_group(facts), is_counted)

    def lag(self) -> list[ReadPosition]:
        """Return how far the pipeline has read, by the offsets that it publishes."""
        ends = topic_ends(self.settings, self.settings.topics.read_with_relay)
        return read_positions(published_offsets(self.settings, ends) if ends else {}, {}, ends)

    def oldest_unread_age_ms(self, positions: list[ReadPosition]) -> int | None:
        """Return the age of the oldest record that was not read, None if all were."""
        stored_ms = oldest_unread_ms(self.settings, positions)
        return None if stored_ms is None else max(0, self.now_ms() - stored_ms)

    def doctor(self) -> list[Diagnosis]:
        """Return what the doctor's checks of brokers, topics and rights find."""
        return list(BrokerChecks(self.settings).findings())

    def checkpoint(self) -> dict[str, Any]:
        """Return what `checkback checkpoint inspect` says.

        Raises:
            ConfigurationError: no checkpoint is set.
            CheckbackError: it, or Kafka, can't be read.
        """
        with checkpoint_readable(self.settings):
            from checkback.operations.checkpoint.inspect import inspect
            from checkback.operations.checkpoint.open import open_state

            with open_state(self.settings) as store:
                return inspect(self.settings, store).as_data(self.now_ms())

    def histories(self, name: str) -> list[TransactionHistory]:
        """Return the history of a transaction, or of all with the same id.

        Raises:
            NotFoundError: there is no such transaction on the topics.
            BrokerError: the brokers do not answer, or refuse.
        """
        with open_finder(self.settings) as finder:
            return finder.find(name)

    def discarded(self, wanted: RecordFilter) -> list[DiscardedHalf]:
        """Return the newest discarded halves that a filter chooses, newest first."""
        with self.scanner() as scanner:
            records = scanner.scan(self.settings.topics.discarded, newest=SEARCHED_OFFSETS_MAX)
            found = [one for one in discarded_halves(records) if wanted.takes(one)]
        return found[: -SHOWN_RECORDS_MAX - 1 : -1]

    def refused(self, reason: str = "") -> list[dict[str, Any]]:
        """Return the newest refused records, newest first, without their bodies."""
        kept: deque[dict[str, Any]] = deque(maxlen=SHOWN_RECORDS_MAX)
        resent: dict[str, str] = {}
        with self.scanner() as scanner:
            topic = self.settings.topics.refused
            for record in scanner.scan(topic, newest=SEARCHED_OFFSETS_MAX):
                event = refused_event(record)
                if event.kind == "resent":
                    resent[record.text(names.RESEND.source)] = event.facts["resent_to"]
                elif reason in ("", event.facts["reason"]):
                    kept.append(self._refused_row(record, event))
        rows = [{**row, "resent_to": resent.get(row["at"], "")} for row in kept]
        return sorted(rows, key=lambda row: -row["time_ms"])

    def _refused_row(self, record: FoundRecord, event: HistoryEvent) -> dict[str, Any]:
        refused = RefusedRecord(record, refusal_facts(record.headers))
        return {
            **event.as_data(),
            "at": str(record.at),
            "transaction_id": refused.transaction_id,
            "group": refused.group,
            "body_bytes": len(record.value or b""),
            "is_half": event.facts["origin_topic"] == self.settings.topics.half,
            "may_be_sent": not refused.obstacle(self.settings.topics.half),
        }

    def record(self, topic: str, at: Position) -> FoundRecord:
        """Return one record, whole.

        Raises:
            NotFoundError: it is gone.
            BrokerError: the brokers do not answer, or refuse.
        """
        reader = closing(RecordReader(self.settings.connection(), topic))
        with reader as records, self.scanner() as scanner:
            found = record_at(scanner, records, at)
        if found is None:
            raise NotFoundError(
                f"{topic} has no record {at}.",
                remedy="Check the position; retention may have deleted it.",
            )
        return found

    def scanner(self) -> TopicScanner:
        """Return a scanner, which the caller closes."""
        return TopicScanner(self.settings.connection())

    def admin(self) -> Any:
        """Return the one admin client."""
        if self._admin is None:
            self._admin = AdminClient(self.settings.connection())
        return self._admin
