"""The history of one transaction, put together from the records that speak of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from checkback.operations.positions import Position
from checkback.operations.scanning import FoundRecord
from checkback.protocol import properties as names
from checkback.protocol.properties import ERROR_HEADER_PREFIX
from checkback.protocol.records import DISCARDED_REASON_HEADER
from checkback.state import Mark, unpack_settled

PENDING: Final = "pending"
VERDICTS: Final = {
    Mark.COMMIT: "commit",
    Mark.ROLLBACK: "rollback",
    Mark.DISCARD_CHECK_LIMIT: "discard",
    Mark.DISCARD_EXPIRED: "discard",
    Mark.REFUSED_HALF: "refused",
}
"""What a settled mark says in the end; a mark that is not here leaves the half pending."""

OP_STATES: Final = {"8": "commit", "12": "rollback", "0": "unknown"}

KINDS: Final = (
    "half", "op", "check undelivered", "check request", "mark", "final", "discarded", "refused",
    "resumed",
)  # fmt: skip
"""Of events, in the order in which those of the same time are told."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened to a transaction.

    Args:
        kind: one of KINDS.
        time_ms: when, milliseconds since 1970. Of finals and discarded records the time of the
            batch that wrote them: their own timestamp is the half's.
        topic: where it is written.
        at: where on the topic.
        facts: what else is to be said of it.
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
    """All that is known of one transaction.

    Args:
        half_at: where its half is, or was.
        transaction_id: UNIQ_KEY, "" where the half is gone.
        group: the producer group, "" where the half is gone.
        real_topic: where it goes once committed, "" where the half is gone.
        verdict: pending, commit, rollback, discard or refused (the half itself).
        events: in the order of time.
    """

    half_at: Position
    transaction_id: str
    group: str
    real_topic: str
    verdict: str
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
            "events": [event.as_data() for event in self.events],
        }


def assemble(
    half_at: Position, half: FoundRecord | None, events: Iterable[HistoryEvent]
) -> TransactionHistory:
    """Return the history of a half from what was found of it.

    Args:
        half_at: where the half is.
        half: the half itself, None where it is gone.
        events: what else was found, in any order.
    """
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
        tuple(found),
    )


def half_event(record: FoundRecord) -> HistoryEvent:
    """Return the event that a half was stored."""
    facts: dict[str, Any] = {
        "key": _shown(record.key),
        "body_bytes": len(record.value or b""),
        "properties": {name: _shown(value) or "" for name, value in record.headers},
    }
    resumed_from = record.text(names.RESUME_FROM)
    if resumed_from:
        facts["resumed_from"] = resumed_from
    return _event("half", record, facts)


def op_event(record: FoundRecord) -> HistoryEvent:
    """Return the event of a record on the op topic: an op, or the sink's feedback."""
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
    """Return the event that a producer group was asked."""
    times = record.text(names.TRANSACTION_CHECK_TIMES)
    return _event("check request", record, {"check_times": _number(times)})


def mark_event(record: FoundRecord, half_at: Position) -> HistoryEvent | None:
    """Return what a record of the settled topic says of a half, None where it says nothing.

    Raises:
        CheckpointError: another version wrote the record, or it is damaged.
    """
    marks = unpack_settled(record.value or b"")
    rows = (marks.offset == half_at.offset).nonzero()[0]
    if marks.partition != half_at.partition or not len(rows):
        return None
    # One batch may ask and settle; the verdict is what counts then.
    found = [Mark(int(marks.mark[row])) for row in rows]
    mark = next((one for one in found if one in VERDICTS), found[0])
    facts = {
        "mark": mark.name.lower().replace("_", " "),
        "verdict": VERDICTS.get(mark, ""),
        "batch_id": marks.batch_id,
        "check_times": int(marks.check_times[rows].max()),
    }
    return HistoryEvent("mark", marks.now_ms, record.topic, record.at, facts)


def final_event(record: FoundRecord) -> HistoryEvent:
    """Return the event that the final message was written."""
    return _event("final", record, {"body_bytes": len(record.value or b"")})


def discarded_event(record: FoundRecord) -> HistoryEvent:
    """Return the event of a record on the discarded topic: the half, or that it was resumed."""
    if record.text(names.RESUME_TO):
        facts = {
            "resumed_to": record.text(names.RESUME_TO),
            "operator": record.text(names.RESUME_OPERATOR),
            "reason": record.text(names.RESUME_REASON),
        }
        return _event("resumed", record, facts)
    times = record.text(names.TRANSACTION_CHECK_TIMES)
    why = record.text(DISCARDED_REASON_HEADER)
    return _event("discarded", record, {"reason": why, "check_times": _number(times)})


def refused_event(record: FoundRecord) -> HistoryEvent:
    """Return the event that a record was refused."""

    def told(fact: str) -> str:
        return record.text(ERROR_HEADER_PREFIX + fact)

    origin = {
        "origin_topic": told("topic"),
        "origin_partition": _number(told("partition")),
        "origin_offset": _number(told("offset")),
    }
    return _event("refused", record, {"reason": told("reason"), "says": told("message"), **origin})


def half_position(record: FoundRecord) -> Position | None:
    """Return which half a final, a check request or a discarded record says it came from."""
    partition = record.text(names.TRAN_HALF_QUEUE_ID)
    offset = record.text(names.TRAN_PREPARED_QUEUE_OFFSET)
    return Position.parse(f"{partition}:{offset}")


def _event(kind: str, record: FoundRecord, facts: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(kind, record.time_ms, record.topic, record.at, facts)


def _at_batch_time(event: HistoryEvent, batch_ms: int) -> HistoryEvent:
    if event.kind not in ("final", "discarded"):
        return event
    return HistoryEvent(event.kind, batch_ms, event.topic, event.at, event.facts)


def _shown(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1
