"""Calls that may hang for ever: another thread makes them, so the caller can give them up."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class HangingCallError(Exception):
    """The call did not return. It may still use its arguments: do not touch them."""


def call_within(call: Callable[[], object], timeout_s: float) -> None:
    """Run a call in a thread of its own and wait for it for a limited time.

    A call that hangs keeps its thread, which ends with the process.

    Raises:
        HangingCallError: it did not come back.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as failure:
            failures.append(failure)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise HangingCallError
    if failures:
        raise failures[0]
