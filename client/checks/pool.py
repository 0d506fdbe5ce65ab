"""Threads that answer checks, with a bounded queue before them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

_log = logging.getLogger(__name__)

Check = TypeVar("Check")

WAIT_S: Final = 0.05
"""How soon a waiting thread notices that the pool was closed."""


class CheckPool(Generic[Check]):
    """A fixed number of threads.

    They are daemons, which those of a ThreadPoolExecutor are not: a listener that hangs must not
    keep the process from ending.

    Args:
        held: most jobs that wait in the queue.
        work: called with each job, in one of the threads; what it raises is logged.
    """

    def __init__(
        self, name: str, *, threads: int, held: int, work: Callable[[Check], None]
    ) -> None:
        self._work = work
        self._jobs: queue.Queue[Check] = queue.Queue(held)
        self._at_work: deque[None] = deque()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(1, threads + 1)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def room(self) -> int:
        """Return how many jobs the queue still takes."""
        return self._jobs.maxsize - self._jobs.qsize()

    def offer(self, job: Check) -> None:
        """Take a job in, waiting for room where there is none; dropped once closed."""
        while not self._closing.is_set():
            try:
                self._jobs.put(job, timeout=WAIT_S)
            except queue.Full:
                continue
            return

    def close(self, timeout_s: float) -> int:
        """Start no further job, wait for those that run; return how many still run."""
        self._closing.set()
        deadline_s = time.monotonic() + timeout_s
        started = [thread for thread in self._threads if thread.ident is not None]
        for thread in started:
            if thread is not threading.current_thread():  # a listener shuts its producer down
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return len(self._at_work)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                job = self._jobs.get(timeout=WAIT_S)
            except queue.Empty:
                continue
            self._at_work.append(None)
            try:
                self._work(job)
            except BaseException:  # SystemExit of a listener, too: other checks need the thread
                _log.exception("A check was not answered")
            finally:
                self._at_work.pop()
