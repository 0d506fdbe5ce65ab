"""A console over a small state; what it would ask Kafka is made up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from fastapi.testclient import TestClient
from tests.property.paged import first_words
from tests.unit.state.building import RULES

from checkback.checkpoints.own_files.batch_terms import BatchTerms, TermsNote
from checkback.checkpoints.pending.pending_halves import PendingTable, group_tag
from checkback.checkpoints.spark_files.state_rows import StoredPage
from checkback.console.access import Access, AccessRules, digest
from checkback.console.actions import ActionRequest, ActionResult, OperatorAction, Preview
from checkback.console.app import new_application
from checkback.console.audit import Audit, AuditEntry
from checkback.console.context import Console
from checkback.console.facts import GroupRow, KafkaFacts
from checkback.console.overview import SnapshotReader
from checkback.console.pending_view import PendingView, Reading
from checkback.operations.checkpoint.inspect import Inspection, StateFigures
from checkback.operations.checkpoint.verification import Verification
from checkback.operations.doctor.judgements import Diagnosis, GroupFacts, Result, judge_group
from checkback.operations.parked.discarded import DiscardedHalf
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.topics.lag import ReadPosition
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import (
    HistoryEvent,
    TransactionHistory,
    assemble,
    discarded_event,
    op_event,
)
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, NotFoundError
from checkback.protocol.records import (
    Op,
    OperatorFacts,
    discarded_headers,
    half_headers,
    note_headers,
)
from checkback.protocol.topics import TopicNames
from checkback.state import Page
from checkback.state.page.page import PendingHalves

NOW_MS = 1_795_411_700_000
TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of a console that lives for one test
OPERATOR = "kim"
NAMES = TopicNames()
EVIL = "<script>alert(1)</script>"
GROUPS = ("order-service", "payment-service", "stock-service")


class HalfTopic:
    """The half topic as a reader of single records sees it; closing is noted."""

    def __init__(self) -> None:
        self.is_closed = False

    def read(
        self, partition: int, offsets: np.ndarray[Any, np.dtype[np.int64]]
    ) -> Iterator[tuple[int, Any]]:
        del partition
        for offset in offsets.tolist():
            yield (
                offset,
                SimpleNamespace(headers=half(offset, group=GROUPS[offset % 3]).headers.copy),
            )

    def close(self) -> None:
        self.is_closed = True


def stored(partition: int, *offsets: int) -> StoredPage:
    """A page that holds these halves; each was stored as many minutes before NOW_MS."""
    empty, chosen = Page.empty(partition, 0, 100), np.array(offsets)
    tags = np.array([group_tag(GROUPS[one % 3]) for one in offsets])
    was_asked = (chosen >= 4) & (chosen < 8)
    halves = PendingHalves(
        chosen, NOW_MS - 60_000 * chosen, np.full(len(offsets), NOW_MS + RULES.check_interval_ms),
        np.where(was_asked, 2, 0), first_words(tags, chosen), chosen,
    )  # fmt: skip
    page = Page(partition, 0, 100, halves, empty.waiting, empty.settled)
    return StoredPage(0, page.pack(), 0)


def reading() -> Reading:
    """What the state holds: halves 3 to 13, of which four were asked about twice."""
    pages = [stored(0, *range(4, 14, 2)), stored(1, *range(3, 14, 2))]
    return Reading(17, PendingTable.of(pages), [TermsNote(0, BatchTerms(RULES))])


def half(offset: int = 4, body: bytes = EVIL.encode(), group: str = "order-service") -> FoundRecord:
    headers = half_headers(
        producer_group=group,
        transaction_id=f"0A0000{offset:06}C0FFEE00112233445566",
        real_topic="orders-paid",
        properties={"note": EVIL},
    )
    at = Position(offset % 2, offset)
    return FoundRecord(NAMES.half, at, NOW_MS - 60_000 * offset, b"order-4", body, headers)


def discarded(offset: int, *, resumed_to: str = "") -> DiscardedHalf:
    of = half(offset)
    headers = discarded_headers(of.headers, of.at.partition, of.at.offset, 15, "check limit")
    at = Position(0, offset)
    return DiscardedHalf(replace(of, topic=NAMES.discarded, at=at, headers=headers), resumed_to)


def pending_history(of: FoundRecord) -> TransactionHistory:
    """A half, an answer "unknown", and check requests."""
    op = Op(
        of.at.partition,
        of.at.offset,
        "order-service",
        of.text("UNIQ_KEY"),
        0,
        from_transaction_check=True,
    )
    op_record = FoundRecord(
        NAMES.op, Position(0, 9), of.time_ms + 65_000, op.key(), op.value(), op.headers()
    )
    check = HistoryEvent(
        "check request", of.time_ms + 60_000, NAMES.check("order-service"), Position(0, 3),
        {"check_times": 1},
    )  # fmt: skip
    mark = HistoryEvent(
        "mark", of.time_ms + 61_000, NAMES.settled, Position(0, 5),
        {"mark": "asked", "verdict": "", "batch_id": 17, "check_times": 1},
    )  # fmt: skip
    return assemble(of.at, of, [check, mark, op_event(op_record)])


def decided_history(of: FoundRecord) -> TransactionHistory:
    """An op by hand, its verdict and the final message."""
    op = Op(
        of.at.partition, of.at.offset, "order-service", of.text("UNIQ_KEY"), 8,
        remark="the customer paid by phone", operator="kim",
    )  # fmt: skip
    later = of.time_ms + 400_000
    record = FoundRecord(NAMES.op, Position(0, 12), later, op.key(), op.value(), op.headers())
    mark = HistoryEvent(
        "mark", later + 800, NAMES.settled, Position(0, 8),
        {"mark": "commit", "verdict": "commit", "batch_id": 19, "check_times": 3},
    )  # fmt: skip
    final = HistoryEvent("final", 0, "orders-paid", Position(1, 77), {"body_bytes": 25})
    return assemble(of.at, of, [*pending_history(of).events[1:], op_event(record), mark, final])


def given_up_history(of: FoundRecord) -> TransactionHistory:
    """A discarded half that was resumed."""
    facts = OperatorFacts("kim", "the service was down", NOW_MS)
    headers = note_headers(discarded(3).record.headers, names.RESUME, "0:3", "1:9", facts)
    note = FoundRecord(NAMES.discarded, Position(0, 44), NOW_MS, None, None, headers)
    mark = HistoryEvent(
        "mark", of.time_ms + 900_000, NAMES.settled, Position(0, 8),
        {"mark": "discard check limit", "verdict": "discard", "batch_id": 19, "check_times": 15},
    )  # fmt: skip
    gone = discarded_event(discarded(3).record)
    return assemble(of.at, of, [mark, gone, discarded_event(note)])


class MadeUpFacts(KafkaFacts):
    """Says what a test wants Kafka to say."""

    def groups(self) -> list[GroupRow]:
        found = [
            GroupFacts("order-service", 4, 540_000, True, 2),
            GroupFacts("payment-service", 3, 420_000, True, 0),
            GroupFacts("stock-service", 3, 480_000, False, 0),
            GroupFacts("quiet-service", 0, 0, True, 1),
        ]
        return [GroupRow(one, judge_group(one)) for one in found]

    def group(self, name: str) -> GroupFacts:
        return next(row.facts for row in self.groups() if row.facts.name == name)

    def lag(self) -> list[ReadPosition]:
        return [
            ReadPosition(NAMES.half, 0, 1_204_311, None, 1_204_377),
            ReadPosition(NAMES.half, 1, 1_198_002, None, 1_198_002),
            ReadPosition(NAMES.op, 0, None, None, 12),
        ]

    def oldest_unread_age_ms(self, positions: list[ReadPosition]) -> int | None:
        return 75_000 if any(one.lag for one in positions) else None

    def doctor(self) -> list[Diagnosis]:
        return [
            Diagnosis("brokers", Result.OK, "3 reachable, cluster abc, Kafka 4.2 or later"),
            Diagnosis(
                f"topic {NAMES.op}", Result.FAILED, "missing", "Run `checkback topics create`."
            ),
            Diagnosis("half retention", Result.OK, "halves are kept for 7d"),
            Diagnosis("stalls", Result.FAILED, "hold 3 open transactions.", "Abort them."),
        ]

    def checkpoint(self) -> dict[str, Any]:
        if not self.settings.checkpoint:
            return super().checkpoint()
        state = StateFigures(0, 12, 40_960, 11, NOW_MS - 780_000)
        found = Verification("the-query", None, 2, 8, 7, 7, {0: 8})
        held = Inspection(found, self.lag(), [state], {0: 81_920}, {0: 8}, NOW_MS - 900)
        return held.as_data(NOW_MS)

    def histories(self, name: str) -> list[TransactionHistory]:
        known = {
            "0:4": pending_history(half(4)),
            "1:5": decided_history(half(5)),
            "1:3": given_up_history(half(3)),
        }
        if name not in known:
            raise NotFoundError(f"No half message {name} was found.", remedy="Check the id.")
        return [known[name]]

    def discarded(self, wanted: RecordFilter) -> list[DiscardedHalf]:
        every = [discarded(3, resumed_to="1:9"), discarded(6), discarded(7)]
        return [one for one in every if wanted.takes(one)]

    def refused(self, reason: str = "") -> list[dict[str, Any]]:
        row = {
            "time_ms": NOW_MS, "reason": "OP_WITHOUT_HALF", "says": f"no half for this op {EVIL}",
            "origin_topic": NAMES.op, "origin_partition": 0, "origin_offset": 41, "at": "0:5",
            "transaction_id": "0A0000000099C0FFEE00112233445566", "group": "order-service",
            "body_bytes": 2, "resent_to": "", "may_be_sent": False, "is_half": False,
        }  # fmt: skip
        missing = {
            "reason": "REAL_TOPIC_MISSING", "origin_topic": NAMES.half, "is_half": True,
            "may_be_sent": True,
        }  # fmt: skip
        rows = [
            row,
            {**row, **missing, "at": "0:6"},
            {**row, **missing, "at": "0:7", "resent_to": "orders-paid:1:78"},
            # Whoever writes an op may name anything.
            {**row, "reason": "OP_OFFSET_UNREADABLE", "at": "0:8", "transaction_id": EVIL * 30,
             "group": "g" * 200},
        ]  # fmt: skip
        return [one for one in rows if reason in ("", one["reason"])]

    def record(self, topic: str, at: Position) -> FoundRecord:
        if topic == NAMES.refused and at == Position(0, 666):
            raise BrokerError("The brokers do not answer.", remedy="Check them.")
        return replace(half(at.offset), topic=topic, at=at)


@dataclass
class MadeUpAction:
    """Notes what it is asked for."""

    title: ClassVar[str] = "Decide a transaction"
    choices: ClassVar[Mapping[str, str]] = {"commit": "Commit", "rollback": "Roll back"}
    back: ClassVar[str] = "/transactions/{}"
    performed: list[ActionRequest] = field(default_factory=list)

    def preview(self, asked: ActionRequest) -> Preview:
        return Preview(f"Appends an op that says {asked.choice}.", [("Half", asked.target)])

    def perform(self, asked: ActionRequest) -> ActionResult:
        self.performed.append(asked)
        return ActionResult(
            True, "Committed; the final message is orders-paid 1:78.", [], asked.target
        )


@dataclass
class Stage:
    """A console and what it did."""

    console: Console
    snapshots: SnapshotReader
    action: MadeUpAction
    told: list[AuditEntry]

    def client(self, **options: Any) -> TestClient:
        return TestClient(new_application(self.console), base_url="http://localhost", **options)

    def signed_in(self) -> TestClient:
        client = self.client()
        answer = client.post("/sign-in", data={"token": TOKEN}, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        return client

    def look(self) -> None:
        """Take a snapshot."""
        self.console.history.add(self.snapshots.read())


def make_stage(
    folder: Path, *, metrics_url: str = "", rules: AccessRules | None = None, checkpoint: str = ""
) -> Stage:
    settings = Settings(
        bootstrap_servers="localhost:1", application_id="orders", checkpoint=checkpoint
    )
    view = PendingView(settings, lambda *_: reading(), lambda _: HalfTopic(), clock_s=lambda: 0.0)
    facts = MadeUpFacts(settings, view, lambda: NOW_MS)
    told: list[AuditEntry] = []
    chosen = rules or AccessRules({digest(TOKEN): OPERATOR})
    console = Console(facts, Access(chosen), Audit(told.append))
    action = MadeUpAction()
    actions: dict[str, OperatorAction] = {**console.actions, "resolve": action}
    console.actions = actions
    return Stage(console, SnapshotReader(facts, metrics_url), action, told)
