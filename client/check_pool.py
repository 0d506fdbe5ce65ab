"""Threads that answer checks, with a bounded queue before them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_log = logging.getLogger(__name__)

Check = TypeVar("Check")

WAIT_S: Final = 0.05
"""How soon a waiting thread notices that the pool was closed."""


class CheckPool(Generic[Check]):
    """RocketMQ's check pool: grows beyond the least size when the queue is full, or threads hang.

    The threads are daemons: a listener that hangs must not keep the process from ending.

    Args:
        name: begins the threads' names.
        least: threads from the start.
        most: threads at most.
        held: most jobs that wait in the queue.
        work: called with each job, in one of the threads; what it raises is logged.
    """

    def __init__(
        self, name: str, *, least: int, most: int, held: int, work: Callable[[Check], None]
    ) -> None:
        self._name = name
        self._most = most
        self._work = work
        self._jobs: queue.Queue[Check] = queue.Queue(held)
        self._threads: list[threading.Thread] = []
        self._busy_since_s: dict[threading.Thread, float] = {}
        self._closing = threading.Event()
        for _ in range(least):
            self.grow()
        if not self._threads:
            raise RuntimeError("no thread can be started to answer checks")

    def room(self) -> int:
        """Return how many jobs the queue still takes, one more if a thread can be added."""
        free = self._jobs.maxsize - self._jobs.qsize()
        return free or (1 if len(self._threads) < self._most else 0)

    def offer(self, job: Check) -> None:
        """Take a job in, waiting for room where there is none; dropped once closed."""
        if self._jobs.full():
            self.grow()
        while not self._closing.is_set():
            try:
                self._jobs.put(job, timeout=WAIT_S)
            except queue.Full:
                continue
            return

    def stuck_for_s(self, now_s: float) -> float:
        """Return the time since a thread last began a job; zero while a thread is free."""
        busy = list(self._busy_since_s.values())
        return now_s - max(busy) if len(busy) >= len(self._threads) else 0.0

    def grow(self) -> bool:
        """Add a thread; tell whether there was room for one, here and in the process."""
        if len(self._threads) >= self._most:
            return False
        name = f"{self._name}-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _log.warning("No thread can be added that answers checks: %s", error)
            return False
        self._threads.append(thread)
        return True

    def close(self, timeout_s: float) -> int:
        """Start no further job, wait for those that run; return how many still run."""
        self._closing.set()
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread is not threading.current_thread():  # a listener shuts its producer down
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                job = self._jobs.get(timeout=WAIT_S)
            except queue.Empty:
                continue
            self._busy_since_s[threading.current_thread()] = time.monotonic()
            try:
                self._work(job)
            except BaseException:  # SystemExit of a listener, too: other checks need the thread
                _log.exception("A check was not answered")
            finally:
                del self._busy_since_s[threading.current_thread()]
