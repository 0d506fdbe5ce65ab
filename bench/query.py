"""A Spark query in a process of its own, watched from outside: the job's or a baseline's."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from checkback.bench.event_log import Batch, EventLog, event_log_settings
from checkback.bench.folder_watch import FolderWatch
from checkback.bench.processes import Watch
from checkback.bench.stage import Trial
from checkback.deploy.demo.processes import Child, Notice, said_error, told_exit
from checkback.deploy.settings_file import environment_without_settings, write_settings
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError

START_TIMEOUT_S: Final = 180.0
ROWS_TIMEOUT_S: Final = 3_600.0
POLL_S: Final = 0.1

RUN: Final = ("-c", "from checkback.streaming.commands import main; main()", "run")
BASELINE: Final = ("-m", "checkback.bench.baseline")


@dataclass(slots=True)
class Query:
    """One process with one query; a context manager that ends it.

    Args:
        trial: its topics and settings.
        name: of its folder of logs; no other query of the trial has it.
        program: arguments of Python that run it; ``--config`` and ``--output json`` follow.
        settings: those of the trial, unless others are given.
        options: further arguments.
        environment: variables besides those of this process.
        others: further processes that belong to it, with their descendants.
    """

    trial: Trial
    name: str
    program: Sequence[str] = RUN
    settings: Settings | None = None
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[int] = ()
    notices: list[tuple[float, Notice]] = field(default_factory=list)
    launched_ms: float = 0.0
    watch: Watch = field(default_factory=lambda: Watch(()))
    checkpoint: FolderWatch = field(default_factory=lambda: FolderWatch(Path()))
    log: EventLog = field(default_factory=lambda: EventLog(Path()))
    _inbox: SimpleQueue[Notice] = field(default_factory=SimpleQueue)
    _child: Child | None = None

    def __enter__(self) -> Self:
        folder = self.trial.folder / self.name
        events = folder / "events"
        events.mkdir(parents=True)
        self.log = EventLog(events)
        settings = self.settings or self.trial.settings
        config = folder / "checkback.toml"
        spark = {**settings.spark, **event_log_settings(events)}
        write_settings(config, replace(settings, spark=spark))
        self.launched_ms = time.time() * 1_000
        self._child = Child(
            self.name,
            [
                sys.executable, *self.program, "--config", str(config), "--output", "json",
                *self.options,
            ],
            folder / "errors.log",
            self._inbox,
            {**environment_without_settings(), **self.environment},
        )  # fmt: skip
        broker_pid = self.trial.stage.broker_pid
        broker = {} if broker_pid is None else {"broker": broker_pid}
        self.watch = Watch([self._child.pid, *self.others], broker)
        self.watch.__enter__()
        self.checkpoint = FolderWatch(Path(settings.checkpoint))
        self.checkpoint.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.__exit__()
        self.checkpoint.__exit__()
        if self._child is not None:
            self._child.stop()

    def batches(self) -> list[Batch]:
        """Return the batches so far."""
        return self.log.read()

    def wait_for_rows(self, rows: int, timeout_s: float = ROWS_TIMEOUT_S) -> list[Batch]:
        """Wait until so many records were read since the start; return the batches."""
        self.wait_until(lambda: sum(one.rows for one in self.batches()) >= rows, timeout_s)
        return self.batches()

    def wait_for_batch(self, timeout_s: float = START_TIMEOUT_S) -> Batch:
        """Wait for the end of the first batch; return it."""
        self.wait_until(lambda: bool(self.batches()), timeout_s)
        return self.batches()[0]

    def run_for(self, seconds: float) -> tuple[float, float]:
        """Let it run; return from when to when, milliseconds since 1970."""
        deadline_s = time.monotonic() + seconds
        from_ms = time.time() * 1_000
        self.wait_until(lambda: time.monotonic() >= deadline_s, seconds + 60)
        return from_ms, time.time() * 1_000

    def wait_until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Look again and again until it holds.

        Raises:
            OperationalError: the process ended, or the time is over.
        """
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            self._take_notices()
            if time.monotonic() > deadline_s:
                raise self._failure(f"did not come so far within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def progress(self) -> list[tuple[float, Mapping[str, Any]]]:
        """Return the job's progress lines with the time at which each came, ms since 1970."""
        self._drain()
        return [(at, one.fields) for at, one in self.notices if one.event == "progress"]

    def counts(self) -> Counter[str]:
        """Return what the job counted in all of its progress lines."""
        total: Counter[str] = Counter()
        for _, fields in self.progress():
            total.update(fields["counts"])
        return total

    def stop(self) -> None:
        """End it between two batches.

        Raises:
            OperationalError: it did not end as it should.
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
        message, remedy = said_error(self._child) if self._child else ("", "")
        return OperationalError(f"The run {self.name} {what}. {message}", remedy=remedy)


def told(fields: Mapping[str, Any]) -> None:
    """Say something to the process that watches this one."""
    print(json.dumps(fields), flush=True)
