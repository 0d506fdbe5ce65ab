"""Signing in and out, and actions: preview, confirmation, result."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from checkback.console.access import SESSION_S, TooManyFailuresError, Visitor
from checkback.console.actions import (
    REASON_CHARACTERS_MAX,
    ActionRequest,
    OperatorAction,
    parse_request,
)
from checkback.console.context import (
    NOTED_CHARACTERS_MAX,
    SESSION_COOKIE,
    Form,
    Operator,
    console_of,
    note,
    page,
    visitor_of,
)
from checkback.protocol.errors import CheckbackError, UsageError

router = APIRouter()


@router.get("/sign-in")
def sign_in_form(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002
    """Ask for a token."""
    return page(request, visitor_of(request), "sign_in.html", next=_own_path(next), error="")


@router.post("/sign-in")
def sign_in(request: Request, form: Form) -> Response:
    """Begin a session."""
    console, onward = console_of(request), _own_path(form.get("next", "/"))
    try:
        begun = console.access.sign_in(form.get("token", ""))
    except TooManyFailuresError:
        says = "Too many wrong tokens; wait a minute."
        note(request, "", "sign in", result="refused", says=says)
        raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, says) from None
    if begun is None:
        note(request, "", "sign in", result="refused", says="the token is unknown")
        error = "Unknown token."
        shown = page(request, visitor_of(request), "sign_in.html", next=onward, error=error)
        shown.status_code = HTTPStatus.FORBIDDEN
        return shown
    session, name = begun
    note(request, name, "sign in")
    answer = RedirectResponse(onward, HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        SESSION_COOKIE, session, max_age=SESSION_S, httponly=True, samesite="strict",
        secure=console.is_secure,
    )  # fmt: skip
    return answer


@router.post("/sign-out")
def sign_out(request: Request, visitor: Operator) -> Response:
    """End the session."""
    console_of(request).access.sign_out(request.cookies.get(SESSION_COOKIE, ""))
    note(request, visitor.name, "sign out")
    answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


@router.post("/actions/{name}/preview")
def preview(request: Request, visitor: Operator, form: Form, name: str) -> HTMLResponse:
    """Show what an action would do; it changes nothing."""
    action = _action(request, name)
    asked = parse_request(action, form, visitor.name)
    shown = action.preview(asked)
    return page(
        request, visitor, "preview.html", name=name, action=action, asked=asked, shown=shown
    )


@router.post("/actions/{name}")
def perform(request: Request, visitor: Operator, form: Form, name: str) -> HTMLResponse:
    """Do what was previewed and confirmed, and show what became of it."""
    action = _action(request, name)
    try:
        asked = _confirmed_request(action, form, visitor.name)
        result = action.perform(asked)
    except CheckbackError as error:
        _note_request(request, visitor, name, form, result="refused", says=error.message)
        raise
    except Exception:
        _note_request(request, visitor, name, form, result="failed", says="see the console's log")
        raise
    noted = "done" if result.is_as_asked else "not as wished"
    _note_request(request, visitor, name, form, result=noted, says=result.says)
    return page(request, visitor, "result.html", action=action, asked=asked, result=result)


def _confirmed_request(action: OperatorAction, form: Form, operator: str) -> ActionRequest:
    asked = parse_request(action, form, operator)
    if form.get("confirmed") != "yes":
        raise UsageError("The action was not confirmed.", remedy="Tick the box of the preview.")
    return asked


def _action(request: Request, name: str) -> OperatorAction:
    found = console_of(request).actions.get(name)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such action.")
    return found


def _own_path(path: str) -> str:
    """Return the path if it is one of the console's: never an address of another site."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own else "/"


def _note_request(
    request: Request, visitor: Visitor, action: str, form: Form, *, result: str, says: str
) -> None:
    asked = {
        "target": form.get("target", "").strip()[:NOTED_CHARACTERS_MAX],
        "choice": form.get("choice", "")[:NOTED_CHARACTERS_MAX],
        "reason": " ".join(form.get("reason", "").split())[:REASON_CHARACTERS_MAX],
    }
    note(request, visitor.name, action, **asked, result=result, says=says)
