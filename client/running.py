"""Counts what is running, so that a shutdown can wait for it and say what it left."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Running:
    """A context manager that counts the threads inside it."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        with self._changed:
            self._count += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_until_idle(self, timeout_s: float) -> int:
        """Wait until nobody is inside, at most so long; return how many still are."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, timeout_s)
            return self._count
