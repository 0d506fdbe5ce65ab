"""The live part of the overview, sent to browsers as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from checkback.console.context import Console, Reader, console_of, part
from checkback.console.rendering import rendered

LISTENERS_MAX: Final = 100
POLL_S: Final = 0.5
SILENCE_S: Final = 15.0

router = APIRouter()


@router.get("/parts/live")
def live_part(request: Request, visitor: Reader) -> HTMLResponse:
    """Show the newest snapshot."""
    history = console_of(request).history
    return part(request, visitor, "live.html", snapshot=history.latest, plots=history.plots())


@router.get("/live")
async def live(request: Request, visitor: Reader) -> StreamingResponse:  # noqa: ARG001 - asks who
    """Send the live part whenever there is a new snapshot."""
    state = request.app.state
    if state.listeners >= LISTENERS_MAX:
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "Too many pages listen.")
    return StreamingResponse(_events(request), media_type="text/event-stream")


class ConsoleServer(uvicorn.Server):
    """Ends the live parts of open pages at once when it has to end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take the signal to end."""
        app: Any = self.config.app
        app.state.is_stopping = True
        super().handle_exit(sig, frame)


async def _events(request: Request) -> AsyncIterator[str]:
    console, state = console_of(request), request.app.state
    state.listeners += 1
    sent, silent_s = -1, 0.0
    try:
        while not state.is_stopping and not await request.is_disconnected():
            if console.history.taken != sent:
                sent, silent_s = console.history.taken, 0.0
                yield event("snapshot", live_html(console))
            elif silent_s >= SILENCE_S:
                silent_s = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(POLL_S)
            silent_s += POLL_S
    finally:
        state.listeners -= 1


def live_html(console: Console) -> str:
    """Return the live part."""
    history = console.history
    shown = {"snapshot": history.latest, "plots": history.plots(), "now_ms": console.now_ms()}
    return rendered("parts/live.html", shown)


def event(name: str, data: str) -> str:
    """Return a server-sent event; each line of the data is a field of its own."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return f"event: {name}\n{lines}\n"
