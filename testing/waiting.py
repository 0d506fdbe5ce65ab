"""Waits for other processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

POLL_S: Final = 0.1


def wait_until(holds: Callable[[], object], timeout_s: float = 180.0, what: str = "") -> None:
    """Call a condition repeatedly until it holds. Use it where another process gives no signal.

    Args:
        holds: the condition; called ten times a second until it returns a true value.
        timeout_s: how long to wait.
        what: description of the condition for the error.

    Raises:
        AssertionError: the condition did not hold in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what or holds}")
        time.sleep(POLL_S)
