"""The parts of pages that ask Kafka or the checkpoint; pages load them after they are shown."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from checkback.console.pending_view import PendingFilter
from checkback.console.reading_pages import PAGE_ROWS, parsed, require_page, stored_until_ms
from checkback.console.serving import Reader, console_of, part
from checkback.console.timeline import half_properties, timeline
from checkback.console.waiting import waiting
from checkback.operations.discarded import REASONS
from checkback.operations.history import PENDING, TransactionHistory
from checkback.operations.record_filter import RecordFilter

router = APIRouter(prefix="/parts")


@router.get("/groups")
def groups(request: Request, visitor: Reader) -> HTMLResponse:
    """Show producer groups and their live members."""
    return part(request, visitor, "groups.html", groups=console_of(request).facts.groups())


@router.get("/lag")
def lag(request: Request, visitor: Reader) -> HTMLResponse:
    """Show how much is left to read."""
    return part(request, visitor, "lag.html", positions=console_of(request).facts.lag())


@router.get("/doctor")
def doctor(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the doctor says."""
    return part(request, visitor, "doctor.html", findings=console_of(request).facts.doctor())


@router.get("/pending")
def pending(
    request: Request,
    visitor: Reader,
    group: str = "",
    older_than: str = "",
    sort: str = "age",
    number: int = 1,
) -> HTMLResponse:
    """Show a page of pending transactions."""
    console = console_of(request)
    require_page(older_than, sort, number)
    wanted = PendingFilter(group, stored_until_ms(older_than, console.now_ms()))
    first = (number - 1) * PAGE_ROWS
    found = console.pending.page(wanted, sort, first, PAGE_ROWS)
    chosen = {"group": group, "older_than": older_than, "sort": sort}
    return part(
        request, visitor, "pending.html", found=found, number=number, first=first,
        pages=max(1, -(-found.total // PAGE_ROWS)), is_chosen=bool(group or older_than),
        address=lambda new: f"/pending?{urlencode({**chosen, 'number': new})}",
    )  # fmt: skip


@router.get("/transactions/{name}")
def transaction(request: Request, visitor: Reader, name: str) -> HTMLResponse:
    """Show the history of a transaction, or of all with the same id."""
    found = console_of(request).facts.histories(name)
    shown = [_history_context(request, one, sees_bodies=visitor.sees_bodies) for one in found]
    return part(request, visitor, "transaction.html", shown=shown)


@router.get("/discarded")
def discarded(
    request: Request, visitor: Reader, group: str = "", topic: str = "", reason: str = ""
) -> HTMLResponse:
    """Show discarded halves."""
    wanted = RecordFilter("", group, topic, REASONS.get(reason, ""))
    found = console_of(request).facts.discarded(wanted)
    return part(request, visitor, "discarded.html", found=found)


@router.get("/refused")
def refused(request: Request, visitor: Reader, reason: str = "") -> HTMLResponse:
    """Show refused records."""
    found = console_of(request).facts.refused(reason)
    return part(request, visitor, "refused.html", found=found)


@router.get("/records/{kind}/{at}")
def record(request: Request, visitor: Reader, kind: str, at: str) -> HTMLResponse:
    """Show one record; its key, properties and body only to those who may see them."""
    topics = console_of(request).settings.topics
    topic = topics.discarded if kind == "discarded" else topics.refused
    found = console_of(request).facts.record(topic, parsed(at))
    return part(request, visitor, "record.html", record=found)


@router.get("/checkpoint")
def checkpoint(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the checkpoint's files and markers say."""
    return part(
        request, visitor, "checkpoint.html", checkpoint=console_of(request).facts.checkpoint()
    )


def _history_context(
    request: Request, history: TransactionHistory, *, sees_bodies: bool
) -> dict[str, Any]:
    console, body, waits = console_of(request), None, None
    if history.verdict == PENDING and history.group:
        group = console.facts.group(history.group)
        waits = waiting(history, group, console.settings.check_max)
    if sees_bodies and history.of_kind("half"):
        body = console.facts.record(console.settings.topics.half, history.half_at).value
    return {
        "history": history,
        "entries": timeline(history),
        "waits": waits,
        "properties": half_properties(history) if sees_bodies else {},
        "body": body,
    }
