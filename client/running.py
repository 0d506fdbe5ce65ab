"""Counts what is running, so that a shutdown can wait for it and say what it left."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Final, Self

LOOK_S: Final = 0.005


class Running:
    """A context manager that counts the threads inside it.

    Every message enters and leaves it, so it has no lock: a deque needs none. Only a shutdown
    polls it, and that happens once.
    """

    def __init__(self) -> None:
        self._inside: deque[None] = deque()

    def __enter__(self) -> Self:
        self._inside.append(None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside.pop()

    def wait_until_idle(self, timeout_s: float) -> int:
        """Wait until nobody is inside, at most this long; return how many still are."""
        deadline_s = time.monotonic() + timeout_s
        while self._inside and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        return len(self._inside)
