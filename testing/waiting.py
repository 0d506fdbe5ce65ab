"""Waits for other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

POLL_S: Final = 0.1
POLL_S_MAX: Final = 0.5
POLL_SHARE: Final = 0.05
"""Of the time that was waited: a look costs processor time, which the others wait for."""


def wait_until(holds: Callable[[], object], timeout_s: float = 180.0, what: str = "") -> None:
    """Call a condition repeatedly until it holds. Use it where another process gives no signal.

    Args:
        holds: the condition; called until it returns a true value, at first ten times a second,
            after ten seconds twice.
        timeout_s: how long to wait.
        what: description of the condition for the error.

    Raises:
        AssertionError: the condition did not hold in time.
    """
    began_s = time.monotonic()
    while not holds():
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what or holds}")
        time.sleep(min(POLL_S_MAX, max(POLL_S, POLL_SHARE * waited_s)))
