"""Calls that may hang for ever: another thread makes them, so the caller can give them up."""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

Calls = SimpleQueue[tuple[Callable[[], object], SimpleQueue[BaseException | None]]]
IDLE_CALLERS: Final[list[Calls]] = []
"""Each leads to a thread that waits for a call. A child process has none of these threads."""
os.register_at_fork(after_in_child=IDLE_CALLERS.clear)


class HangingCallError(Exception):
    """The call did not return. It may still use its arguments: do not touch them."""


def call_within(call: Callable[[], object], timeout_s: float) -> None:
    """Run a call in another thread and wait for it for a limited time.

    Threads are kept for the next calls: a new one takes 0.25 ms of processor time, and a relay
    makes a hundred such calls a second. A call that hangs keeps its thread, which ends with the
    process.

    Raises:
        HangingCallError: it did not come back.
    """
    try:
        calls = IDLE_CALLERS.pop()
    except IndexError:  # looked at first, it could be empty a moment later
        calls = _new_caller()
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    calls.put((call, answers))
    try:
        failure = answers.get(timeout=timeout_s)
    except Empty:
        raise HangingCallError from None
    IDLE_CALLERS.append(calls)
    if failure is not None:
        try:
            raise failure
        finally:
            del failure, call  # else its traceback, which leads here, would lead to the call


def _new_caller() -> Calls:
    calls: Calls = SimpleQueue()
    Thread(target=_call_each, args=(calls,), daemon=True).start()
    return calls


def _call_each(calls: Calls) -> None:
    while True:
        call, answers = calls.get()
        try:
            call()
        except BaseException as failure:
            answers.put(failure)
        else:
            answers.put(None)
        del call, answers  # nothing that the next call may wait for is kept alive
