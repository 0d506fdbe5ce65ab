"""The history of one transaction, assembled from the records about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.protocol import properties as names
from checkback.protocol.refusals import refusal_facts
from checkback.state import Mark, SettledMarks, marks_of
from checkback.state.formats.identity import identity_words
from checkback.state.formats.settled_marks import NO_IDENTITY

PENDING: Final = "pending"
VERDICTS: Final = {
    Mark.COMMIT: "commit",
    Mark.DELIVERED: "commit",
    Mark.ROLLBACK: "rollback",
    Mark.DISCARD_CHECK_LIMIT: "discard",
    Mark.DISCARD_EXPIRED: "discard",
    Mark.REFUSED_HALF: "refused",
}
"""The verdict that a settled mark stands for; any other mark leaves the half pending."""

DELIVERED_BY: Final = {"delivered": "relay", "commit": "job"}
"""Who delivered the final message, by what the mark of a committed half says."""

OP_STATES: Final = {"8": "commit", "9": "delivered", "12": "rollback", "0": "unknown"}

KINDS: Final = (
    "half", "op", "check undelivered", "check request", "mark", "final", "discarded", "refused",
    "resumed", "resent",
)  # fmt: skip
"""The kinds of events; events of the same time are listed in this order."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened to a transaction.

    Args:
        time_ms: when, milliseconds since 1970. For finals and discarded records, the time of the
            batch that wrote them, because their own timestamp is the half's.
    """

    kind: str
    time_ms: int
    topic: str
    at: Position
    facts: dict[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "kind": self.kind,
            "time_ms": self.time_ms,
            "topic": self.topic,
            "partition": self.at.partition,
            "offset": self.at.offset,
            **self.facts,
        }


@dataclass(frozen=True, slots=True)
class TransactionHistory:
    """Everything known about one transaction.

    Args:
        half_at: the position of its half, even if the half is gone.
        transaction_id: UNIQ_KEY, "" if the half is gone.
        verdict: pending, commit, rollback, discard or refused (the half itself).
        delivered_by: of a commit, relay or job; else empty.
    """

    half_at: Position
    transaction_id: str
    group: str
    real_topic: str
    verdict: str
    delivered_by: str
    events: tuple[HistoryEvent, ...]

    def of_kind(self, kind: str) -> list[HistoryEvent]:
        """Return the events of one kind."""
        return [event for event in self.events if event.kind == kind]

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "transaction_id": self.transaction_id,
            "group": self.group,
            "real_topic": self.real_topic,
            "half_partition": self.half_at.partition,
            "half_offset": self.half_at.offset,
            "verdict": self.verdict,
            "delivered_by": self.delivered_by,
            "events": [event.as_data() for event in self.events],
        }


def assemble(
    half_at: Position, half: FoundRecord | None, events: Iterable[HistoryEvent]
) -> TransactionHistory:
    """Return the history of a half, assembled from the events about it."""
    found = list(events)
    verdict_mark = next((one for one in found if one.facts.get("verdict")), None)
    if verdict_mark is not None:
        found = [_at_batch_time(event, verdict_mark.time_ms) for event in found]
    if half is not None:
        found.append(half_event(half))
    found.sort(key=lambda event: (event.time_ms, KINDS.index(event.kind), event.at))
    return TransactionHistory(
        half_at,
        half.text(names.UNIQ_KEY) if half else "",
        half.text(names.PGROUP) if half else "",
        half.text(names.REAL_TOPIC) if half else "",
        verdict_mark.facts["verdict"] if verdict_mark else PENDING,
        DELIVERED_BY.get(verdict_mark.facts["mark"], "") if verdict_mark else "",
        tuple(found),
    )


def half_event(record: FoundRecord) -> HistoryEvent:
    """Return the event for a stored half."""
    facts: dict[str, Any] = {
        "key": _shown(record.key),
        "body_bytes": len(record.value or b""),
        "properties": _properties(record),
    }
    resumed_from = record.text(names.RESUME.source)
    if resumed_from:
        facts["resumed_from"] = resumed_from
    return _event("half", record, facts)


def op_event(record: FoundRecord) -> HistoryEvent:
    """Return the event of an op, or of the sink's feedback on a check."""
    if record.text(names.TAGS) == names.OP_TAG_UNDELIVERED:
        times = record.text(names.TRANSACTION_CHECK_TIMES)
        return _event("check undelivered", record, {"check_times": _number(times)})
    state, operator = record.text(names.COMMIT_OR_ROLLBACK), record.text(names.MANUAL_OPERATOR)
    return _event(
        "op",
        record,
        {
            "says": OP_STATES.get(state, state),
            "group": record.text(names.PGROUP),
            "transaction_id": record.text(names.UNIQ_KEY),
            "answers_check": record.text(names.FROM_TRANSACTION_CHECK) == "true",
            "remark": record.text(names.REMARK),
            "manual": bool(operator),
            "operator": operator,
        },
    )


def check_event(record: FoundRecord) -> HistoryEvent:
    """Return the event for a check request."""
    times = record.text(names.TRANSACTION_CHECK_TIMES)
    return _event("check request", record, {"check_times": _number(times)})


def mark_event(
    record: FoundRecord, half_at: Position, half: FoundRecord | None = None
) -> HistoryEvent | None:
    """Return the event for a record of the settled topic, None if it has no mark for the half.

    Args:
        half: the half that is there: a mark of one that Kafka lost is none of it. None: any.

    Raises:
        CheckpointError: a newer version wrote the record.
    """
    marks = marks_of(record.key, record.value)
    if marks is None or marks.partition != half_at.partition:
        return None
    is_its = (marks.offset == half_at.offset) & _may_be_of(half, marks)
    rows = is_its.nonzero()[0]
    if not len(rows):
        return None
    # One batch may ask about a half and settle it; then the verdict counts.
    found = [Mark(int(marks.mark[row])) for row in rows]
    mark = next((one for one in found if one in VERDICTS), found[0])
    facts = {
        "mark": mark.name.lower().replace("_", " "),
        "verdict": VERDICTS.get(mark, ""),
        "batch_id": marks.batch_id,
        "check_times": int(marks.check_times[rows].max()),
    }
    return HistoryEvent("mark", marks.now_ms, record.topic, record.at, facts)


def _may_be_of(half: FoundRecord | None, marks: SettledMarks) -> NDArray[np.bool_]:
    """Return which marks do not name another half than this one."""
    none = marks.identity_rest == NO_IDENTITY
    if half is None:
        return np.ones_like(none)
    names_of = (half.text(name).encode() for name in (names.PGROUP, names.UNIQ_KEY))
    found: NDArray[np.bool_] = none | (marks.identity_rest == identity_words(*names_of)[1])
    return found


def final_event(record: FoundRecord) -> HistoryEvent:
    """Return the event for a final message."""
    return _event("final", record, {"body_bytes": len(record.value or b"")})


def discarded_event(record: FoundRecord) -> HistoryEvent:
    """Return the event for a record of the discarded topic: a half or a resumption note."""
    if record.text(names.RESUME.target):
        return _note_event("resumed", record, names.RESUME)
    times = record.text(names.TRANSACTION_CHECK_TIMES)
    why = record.text(names.DISCARDED_REASON)
    return _event("discarded", record, {"reason": why, "check_times": _number(times)})


def refused_event(record: FoundRecord) -> HistoryEvent:
    """Return the event for a record of the refused topic: a refused record or a resend note."""
    refusal = refusal_facts(record.headers).facts
    if not refusal and record.text(names.RESEND.target):
        return _note_event("resent", record, names.RESEND)
    origin = {
        "origin_topic": refusal.get("topic", ""),
        "origin_partition": _number(refusal.get("partition", "")),
        "origin_offset": _number(refusal.get("offset", "")),
    }
    says = {"reason": refusal.get("reason", ""), "says": refusal.get("message", "")}
    return _event("refused", record, {**says, **origin})


def half_position(record: FoundRecord) -> Position | None:
    """Return the half position that a final, a check request or a discarded record names."""
    partition = record.text(names.TRAN_HALF_QUEUE_ID)
    offset = record.text(names.TRAN_PREPARED_QUEUE_OFFSET)
    return Position.parse(f"{partition}:{offset}")


def _note_event(kind: str, record: FoundRecord, action: names.ActionNames) -> HistoryEvent:
    told = {f"{kind}_to": action.target, "operator": action.operator, "reason": action.reason}
    return _event(kind, record, {fact: record.text(name) for fact, name in told.items()})


def _event(kind: str, record: FoundRecord, facts: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(kind, record.time_ms, record.topic, record.at, facts)


def _at_batch_time(event: HistoryEvent, batch_ms: int) -> HistoryEvent:
    if event.kind not in ("final", "discarded"):
        return event
    return HistoryEvent(event.kind, batch_ms, event.topic, event.at, event.facts)


def _properties(record: FoundRecord) -> dict[str, str]:
    """Return a half's headers; of two of a name the first, which counts for all who read it."""
    found: dict[str, str] = {}
    for name, value in record.headers:
        found.setdefault(name, _shown(value) or "")
    return found


def _shown(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")


def _number(text: str) -> int:
    """Return a whole number; -1 for what is none, or longer than any that the pipeline writes."""
    number = names.whole_number(text)
    return -1 if number is None else number
