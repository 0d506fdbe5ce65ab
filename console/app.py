"""The web application: routes, headers of every answer, errors as pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkback.console.context import Console, SignInNeededError, page, visitor_of
from checkback.console.pages import acting as acting_pages
from checkback.console.pages import reading as pages
from checkback.console.rendering import STATIC
from checkback.protocol.errors import CheckbackError, NotFoundError, UsageError

SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class SecurityHeaders:
    """Puts SECURITY_HEADERS on every answer, errors and streams too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
                named = {name for name, _ in own}
                others = [one for one in message["headers"] if one[0].lower() not in named]
                message["headers"] = [*others, *own]
            await send(message)

        await self._app(scope, receive, sent)


def new_application(
    console: Console,
    sampler: AbstractContextManager[None] | None = None,
    hosts: Sequence[str] = ("*",),
) -> FastAPI:
    """Return the application; it runs inside of the sampler's block."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with sampler or nullcontext():
            yield

    # Its own pages about its interface load scripts from elsewhere.
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.console = console
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(SecurityHeaders)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for router in (pages.router, pages.parts, acting_pages.router):
        app.include_router(router)
    app.add_api_route("/healthz", lambda: JSONResponse({"alive": True}), methods=["GET"])
    handlers: dict[type[Exception], Callable[..., Response]] = {
        SignInNeededError: _ask_to_sign_in,
        CheckbackError: _our_error,
        StarletteHTTPException: _http_error,
        RequestValidationError: _wrong_address,
        Exception: _defect,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    return app


def _ask_to_sign_in(request: Request, _: SignInNeededError) -> Response:
    if request.url.path.startswith("/parts/"):
        return _error(request, HTTPStatus.UNAUTHORIZED, "Sign in to see this.", "")
    onward = quote(str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""))
    return RedirectResponse(f"/sign-in?next={onward}", HTTPStatus.SEE_OTHER)


def _our_error(request: Request, error: CheckbackError) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, UsageError):
        is_absent = isinstance(error, NotFoundError)
        status = HTTPStatus.NOT_FOUND if is_absent else HTTPStatus.BAD_REQUEST
    return _error(request, status, error.message, error.remedy)


def _http_error(request: Request, error: HTTPException) -> Response:
    known = {404: "There is no such page.", 405: "This page can't be asked for in that way."}
    says = known.get(error.status_code, str(error.detail))
    return _error(request, error.status_code, says, "")


def _wrong_address(request: Request, _: RequestValidationError) -> Response:
    return _error(request, HTTPStatus.BAD_REQUEST, "Page not found.", "")


def _defect(request: Request, _: Exception) -> Response:
    answer = _error(
        request,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "This is a defect of Checkback.",
        "The console's output has the trace: please report it.",
    )
    # Made outside of everything else that adds headers.
    answer.headers.update(SECURITY_HEADERS)
    return answer


def _error(request: Request, status: int, says: str, remedy: str) -> HTMLResponse:
    is_part = request.url.path.startswith("/parts/")
    template = "parts/problem.html" if is_part else "error.html"
    answer = page(request, visitor_of(request), template, says=says, remedy=remedy)
    answer.status_code = int(status)
    return answer
