"""A process watched from outside: its reports, processor time, memory and files."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Self

from checkback.bench.event_log import MeasuredBatch
from checkback.bench.folder_watch import FolderWatch
from checkback.bench.processes import Watch
from checkback.bench.speed import SpeedWatch
from checkback.protocol.errors import OperationalError
from checkback.testing.processes import Child, Notice, said_error, told_exit

START_TIMEOUT_S: Final = 180.0
ROWS_TIMEOUT_S: Final = 3_600.0
POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a process, and what to watch.

    Args:
        name: the process's name.
        command: the command to run.
        log: file for its standard error.
        environment: the process's whole environment.
        written: the folder whose written bytes count; need not exist yet.
        others: further processes that count, with their descendants.
        broker_pid: process id of the embedded broker, None for a foreign one.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    written: Path
    others: Sequence[int] = ()
    broker_pid: int | None = None


@dataclass(slots=True)
class MonitoredProcess(ABC):
    """One watched process; a context manager that ends it."""

    notices: list[tuple[float, Notice]] = field(default_factory=list, init=False)
    launched_ms: float = field(default=0.0, init=False)
    watch: Watch = field(default_factory=lambda: Watch(()), init=False)
    checkpoint: FolderWatch = field(default_factory=lambda: FolderWatch(Path()), init=False)
    speed: SpeedWatch = field(default_factory=SpeedWatch, init=False)
    _inbox: SimpleQueue[Notice] = field(default_factory=SimpleQueue, init=False)
    _child: Child | None = field(default=None, init=False)

    @abstractmethod
    def prepare(self) -> Launch:
        """Write the process's files; return how to start it."""

    @abstractmethod
    def batches(self) -> list[MeasuredBatch]:
        """Return the batches so far."""

    def __enter__(self) -> Self:
        launch = self.prepare()
        self.launched_ms = time.time() * 1_000
        self._child = Child(
            launch.name, launch.command, launch.log, self._inbox, launch.environment
        )
        broker = {} if launch.broker_pid is None else {"broker": launch.broker_pid}
        self.watch = Watch([self._child.pid, *launch.others], broker)
        self.watch.__enter__()
        self.checkpoint = FolderWatch(launch.written)
        self.checkpoint.__enter__()
        self.speed.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.speed.__exit__()
        self.watch.__exit__()
        self.checkpoint.__exit__()
        if self._child is not None:
            self._child.stop()

    def wait_for_rows(self, rows: int, timeout_s: float = ROWS_TIMEOUT_S) -> list[MeasuredBatch]:
        """Wait until the process has read this many records since its start; return the batches."""
        self.wait_until(lambda: sum(one.rows for one in self.batches()) >= rows, timeout_s)
        return self.batches()

    def wait_for_batch(self, timeout_s: float = START_TIMEOUT_S) -> MeasuredBatch:
        """Wait for the end of the first batch; return the batch."""
        self.wait_until(lambda: bool(self.batches()), timeout_s)
        return self.batches()[0]

    def run_for(self, seconds: float) -> tuple[float, float]:
        """Let the process run; return begin and end in milliseconds since 1970."""
        deadline_s = time.monotonic() + seconds
        from_ms = time.time() * 1_000
        self.wait_until(lambda: time.monotonic() >= deadline_s, seconds + 60)
        return from_ms, time.time() * 1_000

    def wait_until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Call a condition repeatedly until it holds.

        Raises:
            OperationalError: the process ended, or the condition did not hold in time.
        """
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            self._take_notices()
            if time.monotonic() > deadline_s:
                raise self._failure(f"made too little progress within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the process between two batches.

        Raises:
            OperationalError: the process failed or did not end in time.
        """
        if self._child is None:
            return
        exit_code = self._child.stop(120)
        if exit_code != 0:
            raise self._failure(told_exit(exit_code))
        self._drain()
        self.batches()

    def _drain(self) -> None:
        try:
            while True:
                self.notices.append((time.time() * 1_000, self._inbox.get_nowait()))
        except Empty:
            return

    def _take_notices(self) -> None:
        self._drain()
        if any(notice.event == "ended" for _, notice in self.notices):
            raise self._failure("ended by itself")

    def _failure(self, what: str) -> OperationalError:
        name = self._child.name if self._child else ""
        message, remedy = said_error(self._child) if self._child else ("", "")
        return OperationalError(f"The run {name} {what}. {message}", remedy=remedy)
