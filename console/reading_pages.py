"""The pages that show something. Each is there at once; what has to ask Kafka loads as a part."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from checkback.checkpoints.pending_halves import SORTS
from checkback.console.serving import Reader, console_of, page
from checkback.operations.discarded import REASONS
from checkback.operations.positions import Position
from checkback.protocol.durations import duration_ms
from checkback.protocol.errors import NotFoundError
from checkback.protocol.refusals import RefusedReason

PAGE_ROWS = 50
PAGE_NUMBER_MAX = 10_000_000

router = APIRouter()


@router.get("/")
def overview(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the pipeline is doing."""
    console = console_of(request)
    history = console.history
    return page(request, visitor, "overview.html", snapshot=history.latest, plots=history.plots())


@router.get("/pending")
def pending(
    request: Request,
    visitor: Reader,
    group: str = "",
    older_than: str = "",
    sort: str = "age",
    number: int = 1,
) -> HTMLResponse:
    """Show what waits for a verdict."""
    chosen = {"group": group, "older_than": older_than, "sort": sort}
    require_page(older_than, sort, number)
    query = urlencode({**chosen, "number": number})
    return page(request, visitor, "pending.html", query=query, sorts=SORTS, **chosen)


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


@router.get("/discarded")
def discarded(
    request: Request, visitor: Reader, group: str = "", topic: str = "", reason: str = ""
) -> HTMLResponse:
    """Show what was discarded."""
    query = urlencode({"group": group, "topic": topic, "reason": reason})
    chosen = {"group": group, "topic": topic, "reason": reason, "reasons": list(REASONS)}
    return page(request, visitor, "discarded.html", query=query, **chosen)


@router.get("/refused")
def refused(request: Request, visitor: Reader, reason: str = "") -> HTMLResponse:
    """Show what could not be taken."""
    latest = console_of(request).history.latest
    by_reason = {} if latest is None else latest.refused
    return page(
        request, visitor, "refused.html", query=urlencode({"reason": reason}), reason=reason,
        reasons=[one.name for one in RefusedReason], by_reason=by_reason,
    )  # fmt: skip


@router.get("/checkpoint")
def checkpoint(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what the checkpoint says."""
    return page(request, visitor, "checkpoint.html")


@router.get("/actions")
def actions(request: Request, visitor: Reader) -> HTMLResponse:
    """Show what operators did from this console since it started."""
    return page(request, visitor, "actions.html", entries=console_of(request).audit.newest())


@router.get("/records/{kind}/{at}")
def record(request: Request, visitor: Reader, kind: str, at: str) -> HTMLResponse:
    """Show one discarded or refused record."""
    topics = console_of(request).settings.topics
    known = {"discarded": topics.discarded, "refused": topics.refused}
    if kind not in known:
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such page.")
    return page(request, visitor, "record.html", kind=kind, topic=known[kind], at=parsed(at))


def require_page(older_than: str, sort: str, number: int) -> None:
    """Refuse an address whose order, page or age there can't be.

    Raises:
        HTTPException, UsageError: what is wrong.
    """
    stored_until_ms(older_than, 0)
    if sort not in SORTS or not 1 <= number <= PAGE_NUMBER_MAX:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "There is no such order or page.")


def stored_until_ms(older_than: str, now_ms: int) -> int | None:
    """Return the time until which a half of that age was stored, None for any age.

    Raises:
        UsageError: it is no duration.
    """
    return now_ms - duration_ms(older_than.strip()) if older_than.strip() else None


def parsed(at: str) -> Position:
    """Return a position out of an address.

    Raises:
        NotFoundError: it is none.
    """
    place = Position.parse(at)
    if place is None:
        raise NotFoundError(f"{at!r} is not a position.", remedy="Write partition:offset.")
    return place
