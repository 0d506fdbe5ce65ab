"""The pages that show something.

A page is there at once; what has to ask Kafka or the checkpoint loads after it, as a part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from checkback.checkpoints.pending.pending_halves import SORTS
from checkback.console.context import Reader, console_of, page, part
from checkback.console.words import half_properties, timeline, waiting
from checkback.operations.parked.discarded import REASONS
from checkback.operations.parked.filter import RecordFilter
from checkback.operations.topics.position import Position
from checkback.operations.transactions.history import PENDING, TransactionHistory
from checkback.protocol.durations import duration_ms
from checkback.protocol.errors import NotFoundError
from checkback.protocol.refusals import RefusedReason

PAGE_ROWS = 50
PAGE_NUMBER_MAX = 10_000_000

router, parts = APIRouter(), APIRouter(prefix="/parts")


@dataclass(frozen=True, slots=True)
class PendingQuery:
    """What an address says of the list of pending halves.

    Raises:
        HTTPException, UsageError: an order, a page or an age that can't be.
    """

    group: str = ""
    older_than: str = ""
    sort: str = "age"
    number: int = 1

    def __post_init__(self) -> None:
        self.stored_until_ms(0)
        if self.sort not in SORTS or not 1 <= self.number <= PAGE_NUMBER_MAX:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "There is no such order or page.")

    def stored_until_ms(self, now_ms: int) -> int | None:
        """Return the time until which a half of that age was stored, None for any age."""
        age = self.older_than.strip()
        return now_ms - duration_ms(age) if age else None


AskedHalves = Annotated[PendingQuery, Depends()]


@router.get("/")
def overview(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the pipeline is doing."""
    history = console_of(request).history
    return page(request, visitor, "overview.html", snapshot=history.latest, plots=history.plots())


@parts.get("/live")
def live(request: Request, visitor: Reader) -> HTMLResponse:
    """Show the newest snapshot."""
    history = console_of(request).history
    return part(request, visitor, "live.html", snapshot=history.latest, plots=history.plots())


@parts.get("/groups")
def groups(request: Request, visitor: Reader) -> HTMLResponse:
    """Show producer groups and their live members."""
    return part(request, visitor, "groups.html", groups=console_of(request).facts.groups())


@parts.get("/lag")
def lag(request: Request, visitor: Reader) -> HTMLResponse:
    """Show how much is left to read."""
    facts = console_of(request).facts
    positions = facts.lag()
    age_ms = facts.oldest_unread_age_ms(positions)
    return part(request, visitor, "lag.html", positions=positions, oldest_age_ms=age_ms)


@parts.get("/doctor")
def doctor(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the doctor says."""
    return part(request, visitor, "doctor.html", findings=console_of(request).facts.doctor())


@router.get("/pending")
def pending(request: Request, visitor: Reader, asked: AskedHalves) -> HTMLResponse:
    """Show what waits for a verdict."""
    chosen = asdict(asked)
    return page(request, visitor, "pending.html", query=urlencode(chosen), sorts=SORTS, **chosen)


@parts.get("/pending")
def pending_part(request: Request, visitor: Reader, asked: AskedHalves) -> HTMLResponse:
    """Show a page of pending transactions."""
    facts = console_of(request).facts
    until_ms = asked.stored_until_ms(facts.now_ms())
    first = (asked.number - 1) * PAGE_ROWS
    found = facts.pending.page(asked.sort, first, PAGE_ROWS, asked.group, until_ms)
    return part(
        request, visitor, "pending.html", found=found, number=asked.number, first=first,
        pages=max(1, -(-found.total // PAGE_ROWS)), is_chosen=bool(asked.group or asked.older_than),
        address=lambda new: f"/pending?{urlencode({**asdict(asked), 'number': new})}",
    )  # fmt: skip


@router.get("/transactions")
def search(request: Request, visitor: Reader, name: str = "") -> Response:
    """Find a transaction by its id or its half's position."""
    name = name.strip()
    if Position.parse(name) is not None:
        return RedirectResponse(f"/transactions/{name}", HTTPStatus.SEE_OTHER)
    return page(request, visitor, "search.html", name=name)


@router.get("/transactions/{at}")
def transaction(request: Request, visitor: Reader, at: str) -> HTMLResponse:
    """Show one transaction."""
    return page(request, visitor, "transaction.html", at=parsed(at))


@parts.get("/transactions/{name}")
def transaction_part(request: Request, visitor: Reader, name: str) -> HTMLResponse:
    """Show the history of a transaction, or of all with the same id."""
    found = console_of(request).facts.histories(name)
    shown = [_history_context(request, one, sees_bodies=visitor.sees_bodies) for one in found]
    return part(request, visitor, "transaction.html", shown=shown)


def _history_context(
    request: Request, history: TransactionHistory, *, sees_bodies: bool
) -> dict[str, Any]:
    facts, body, waits = console_of(request).facts, None, None
    if history.verdict == PENDING and history.group:
        waits = waiting(history, facts.group(history.group), facts.settings.check_max)
    if sees_bodies and history.of_kind("half"):
        body = facts.record(facts.settings.topics.half, history.half_at).value
    return {
        "history": history,
        "entries": timeline(history),
        "waits": waits,
        "properties": half_properties(history) if sees_bodies else {},
        "body": body,
    }


@router.get("/discarded")
def discarded(
    request: Request, visitor: Reader, group: str = "", topic: str = "", reason: str = ""
) -> HTMLResponse:
    """Show what was discarded."""
    query = urlencode({"group": group, "topic": topic, "reason": reason})
    chosen = {"group": group, "topic": topic, "reason": reason, "reasons": list(REASONS)}
    return page(request, visitor, "discarded.html", query=query, **chosen)


@parts.get("/discarded")
def discarded_part(
    request: Request, visitor: Reader, group: str = "", topic: str = "", reason: str = ""
) -> HTMLResponse:
    """Show discarded halves."""
    wanted = RecordFilter("", group, topic, REASONS.get(reason, ""))
    found = console_of(request).facts.discarded(wanted)
    return part(request, visitor, "discarded.html", found=found)


@router.get("/refused")
def refused(request: Request, visitor: Reader, reason: str = "") -> HTMLResponse:
    """Show what could not be taken."""
    latest = console_of(request).history.latest
    by_reason = {} if latest is None else latest.refused
    return page(
        request, visitor, "refused.html", query=urlencode({"reason": reason}), reason=reason,
        reasons=[one.name for one in RefusedReason], by_reason=by_reason,
    )  # fmt: skip


@parts.get("/refused")
def refused_part(request: Request, visitor: Reader, reason: str = "") -> HTMLResponse:
    """Show refused records."""
    found = console_of(request).facts.refused(reason)
    return part(request, visitor, "refused.html", found=found)


@router.get("/records/{kind}/{at}")
def record(request: Request, visitor: Reader, kind: str, at: str) -> HTMLResponse:
    """Show one discarded or refused record."""
    topics = console_of(request).facts.settings.topics
    known = {"discarded": topics.discarded, "refused": topics.refused}
    if kind not in known:
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such page.")
    return page(request, visitor, "record.html", kind=kind, topic=known[kind], at=parsed(at))


@parts.get("/records/{kind}/{at}")
def record_part(request: Request, visitor: Reader, kind: str, at: str) -> HTMLResponse:
    """Show one record; its key, properties and body only to those who may see them."""
    topics = console_of(request).facts.settings.topics
    topic = topics.discarded if kind == "discarded" else topics.refused
    found = console_of(request).facts.record(topic, parsed(at))
    return part(request, visitor, "record.html", record=found)


@router.get("/checkpoint")
def checkpoint(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the checkpoint says."""
    return page(request, visitor, "checkpoint.html")


@parts.get("/checkpoint")
def checkpoint_part(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the checkpoint's files and markers say."""
    return part(
        request, visitor, "checkpoint.html", checkpoint=console_of(request).facts.checkpoint()
    )


@router.get("/actions")
def actions(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what operators did from this console since it started."""
    return page(request, visitor, "actions.html", entries=console_of(request).audit.newest())


def parsed(at: str) -> Position:
    """Return a position out of an address."""
    place = Position.parse(at)
    if place is None:
        raise NotFoundError(f"{at!r} is not a position.", remedy="Write partition:offset.")
    return place
