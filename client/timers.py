"""One thread that does things later: ends sends whose time is over, begins tries after a pause."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Timers:
    """Runs actions at their time, in one daemon thread."""

    def __init__(self, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()  # equal times stay in order, and actions uncompared
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def after(self, delay_ms: float, action: Callable[[], None]) -> bool:
        """Run an action after a while; it must not block.

        False: the timers are closed; the action is dropped.
        """
        at_s = self._now_s() + delay_ms / 1000
        with self._changed:
            if self._closed:
                return False
            heapq.heappush(self._due, (at_s, next(self._numbers), action))
            self._changed.notify()
            return True

    def close(self) -> None:
        """Run nothing any more."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except BaseException:  # SystemExit of a callback, too: others wait for their actions
                _log.exception("A delayed action failed")

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next action and return it, None once closed."""
        with self._changed:
            while not self._closed:
                left_s = self._due[0][0] - self._now_s() if self._due else None
                if left_s is not None and left_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left_s)
        return None
