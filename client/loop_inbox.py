"""Hands librdkafka's reports to an event loop, with one call for all that came together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

from confluent_kafka import KafkaError, Message


class LoopReport:
    """A report that one coroutine waits for.

    Args:
        done: where it puts itself when the report is there.
        inbox: hands it to the loop.
    """

    __slots__ = ("_done", "_future", "_inbox", "error", "message")

    def __init__(self, done: deque[Any], inbox: Inbox) -> None:
        self._done = done
        self._inbox = inbox
        self._future: asyncio.Future[None] = inbox.loop.create_future()
        self.error: KafkaError | None = None
        self.message: Message | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report."""
        self.error = error
        self.message = message
        self._done.append(self)

    def wake(self) -> None:
        """Ask the loop to continue the coroutine; called in the thread that polls."""
        self._inbox.put(self)

    def finish(self) -> None:
        """Continue the coroutine; called in the loop."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait for the report, at most this long."""
        timer = self._inbox.loop.call_later(timeout_s, self.finish)
        try:
            await self._future
        finally:
            timer.cancel()
        if self.message is None:
            self._future = self._inbox.loop.create_future()  # there may be a second wait


class Inbox:
    """Reports on their way into a loop.

    Args:
        loop: where they are waited for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._reports: list[LoopReport] = []

    def report(self, done: deque[Any]) -> LoopReport:
        """Return a new report."""
        return LoopReport(done, self)

    def put(self, report: LoopReport) -> None:
        """Take a report; the first one wakes the loop, which then finds the others, too.

        Called in the thread that polls.
        """
        with self._lock:
            self._reports.append(report)
            if len(self._reports) > 1:
                return
        try:
            self.loop.call_soon_threadsafe(self._hand_out)
        except RuntimeError:
            self._reports.clear()  # the loop is closed: nobody waits

    def _hand_out(self) -> None:
        with self._lock:
            reports, self._reports = self._reports, []
        for report in reports:
            report.finish()
