"""The result of a listener's callback: a state, and a remark if the callback failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from checkback.client.counters import ClientEvent
from checkback.client.listener import LocalTransactionState

REMARK_LENGTH_MAX: Final = 1_024
"""A remark travels in a header; a traceback's worth of text has no place there."""

EVENTS_BY_STATE: Final = {
    LocalTransactionState.COMMIT_MESSAGE: ClientEvent.COMMITTED,
    LocalTransactionState.ROLLBACK_MESSAGE: ClientEvent.ROLLED_BACK,
    LocalTransactionState.UNKNOW: ClientEvent.UNKNOWN,
}
"""The event to count for each state that an op has."""


@dataclass(frozen=True, slots=True)
class CallbackResult:
    """The end of a callback.

    Args:
        state: what the op says.
        remark: what went wrong, empty when nothing did.
        exception: what was raised, None when it returned.
    """

    state: LocalTransactionState
    remark: str = ""
    exception: Exception | None = None


_RETURNED: Final = {state: CallbackResult(state) for state in LocalTransactionState}


def run_listener(callback: Callable[[], LocalTransactionState | None]) -> CallbackResult:
    """Run a callback of the listener. None, any other value and an exception mean UNKNOW."""
    try:
        return result_of(callback())
    except Exception as error:
        return CallbackResult(LocalTransactionState.UNKNOW, remark_of(error), error)


def result_of(returned: object) -> CallbackResult:
    """Return the outcome of what a callback returned."""
    if isinstance(returned, LocalTransactionState):
        return _RETURNED[returned]
    if returned is None:
        return _RETURNED[LocalTransactionState.UNKNOW]
    kind = type(returned).__name__
    return CallbackResult(LocalTransactionState.UNKNOW, f"the listener returned a {kind}")


def remark_of(error: BaseException) -> str:
    """Return an exception as one short line that has a UTF-8 form, whatever its text is."""
    try:
        said = str(error)
    except Exception:
        said = "its text can't be made"
    text = " ".join(f"{type(error).__name__}: {said}".split())[:REMARK_LENGTH_MAX]
    return text.encode("utf-8", "replace").decode()
