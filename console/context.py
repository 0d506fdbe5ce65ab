"""What every route needs: the console and its sources, the visitor, forms and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse

from checkback.console.access import PROXY_SECRET_HEADER, Access, Visitor
from checkback.console.actions import OperatorAction, all_actions
from checkback.console.audit import Audit, AuditEntry
from checkback.console.facts import KafkaFacts
from checkback.console.overview import History
from checkback.console.rendering import rendered

SESSION_COOKIE: Final = "checkback_session"
FORM_BYTES_MAX: Final = 16_384
NOTED_CHARACTERS_MAX: Final = 100
"""Of what a refused form says: the audit needs no more of it."""
PAGES: Final = {
    "/": "Overview",
    "/pending": "Pending",
    "/discarded": "Discarded",
    "/refused": "Refused",
    "/checkpoint": "Checkpoint",
    "/actions": "Actions",
}


@dataclass(slots=True)
class Console:
    """Everything that the pages show and do.

    Args:
        is_secure: whether browsers reach the console by https; cookies are then sent only so.
    """

    facts: KafkaFacts
    access: Access
    audit: Audit
    is_secure: bool = False
    history: History = field(default_factory=History)
    actions: Mapping[str, OperatorAction] = field(init=False)

    def __post_init__(self) -> None:
        self.actions = all_actions(self.facts)


class SignInNeededError(Exception):
    """The visitor may not see the page."""


def console_of(request: Request) -> Console:
    """Return the console."""
    found: Console = request.app.state.console
    return found


def visitor_of(request: Request) -> Visitor:
    """Return the sender of a request."""
    console = console_of(request)
    header = console.access.rules.proxy_header
    names = request.headers.getlist(header) if header else []
    secrets = request.headers.getlist(PROXY_SECRET_HEADER)
    return console.access.visitor(request.cookies.get(SESSION_COOKIE, ""), names, secrets)


def reader_of(request: Request) -> Visitor:
    """Return the sender of a request; refuse one who may not read."""
    visitor = visitor_of(request)
    if not visitor.may_read:
        raise SignInNeededError
    return visitor


def note(request: Request, operator: str, action: str, **facts: str) -> None:
    """Add an entry to the audit."""
    console = console_of(request)
    peer = "" if request.client is None else request.client.host
    console.audit.add(AuditEntry(console.facts.now_ms(), operator, action, peer=peer, **facts))


def forbidden(request: Request, says: str, target: str = "") -> HTTPException:
    """Note that a form was refused, and return the answer to raise."""
    action = request.path_params.get("name", request.url.path.strip("/").replace("-", " "))
    operator = visitor_of(request).name
    note(
        request, operator, action[:NOTED_CHARACTERS_MAX], target=target[:NOTED_CHARACTERS_MAX],
        result="refused", says=says,
    )  # fmt: skip
    return HTTPException(HTTPStatus.FORBIDDEN, says)


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent from a page of the console.

    Another site can make a browser send a form, but not with this origin.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    own = origin is None or _host_of(origin) == request.headers.get("host", "")
    if site not in ("same-origin", "none") or not own:
        raise forbidden(request, "This form was not sent from the console.")
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > FORM_BYTES_MAX:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.")
    return dict(parse_qsl(content.decode("utf-8", "replace"), keep_blank_values=True))


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # brackets that are no IPv6 address
        return None


Form = Annotated[dict[str, str], Depends(form_of)]
Reader = Annotated[Visitor, Depends(reader_of)]


def operator_of(request: Request, form: Form) -> Visitor:
    """Return the signed-in operator; the form must come from a page of this session."""
    visitor, target = visitor_of(request), form.get("target", "")
    if not visitor.may_act:
        raise forbidden(request, "Sign in first: only operators may act.", target)
    if not console_of(request).access.is_own_form(visitor, form.get("forgery_token", "")):
        says = "This form is not from your own session; load the page again."
        raise forbidden(request, says, target)
    return visitor


Operator = Annotated[Visitor, Depends(operator_of)]


def page(request: Request, visitor: Visitor, template: str, /, **context: Any) -> HTMLResponse:
    """Return a whole page."""
    console = console_of(request)
    shared = {
        "console": console,
        "menu": PAGES,
        "settings": console.facts.settings,
        "visitor": visitor,
        "here": request.url.path,
        "now_ms": console.facts.now_ms(),
    }
    return HTMLResponse(rendered(template, {**shared, **context}))


def part(request: Request, visitor: Visitor, template: str, **context: Any) -> HTMLResponse:
    """Return a part of a page, which the page loads."""
    return page(request, visitor, f"parts/{template}", **context)
