"""A process that is watched from outside: the job, or what it is compared with."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from bench.runs.batches import EventLog, MeasuredBatch, event_log_settings
from bench.runs.samples import ProcessWatch
from bench.runs.trial import Trial
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import RUN, pipeline_command
from checkback.testing.processes import Child, Notice, told_exit

BASELINE: Final = (sys.executable, "-m", "bench.runs.baseline")
START_TIMEOUT_S: Final = 180.0
ROWS_TIMEOUT_S: Final = 3_600.0
POLL_S: Final = 0.1


@dataclass(slots=True)
class MonitoredProcess(ABC):
    """One watched process of a trial; a context manager that ends it."""

    trial: Trial
    name: str
    notices: list[tuple[float, Notice]] = field(default_factory=list, init=False)
    launched_ms: float = field(init=False)
    watch: ProcessWatch = field(init=False)
    _inbox: SimpleQueue[Notice] = field(default_factory=SimpleQueue, init=False)
    _child: Child = field(init=False)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.trial.folder / self.name

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Write the process's files into its folder; return the command that starts it."""

    def batches(self) -> list[MeasuredBatch]:
        """Return the batches so far; none of a process that has none."""
        return []

    def __enter__(self) -> Self:
        self.folder.mkdir()
        command, environment = self.command(), environment_without_settings()
        self.launched_ms = time.time() * 1_000
        log = self.folder / "errors.log"
        self._child = Child(f"run {self.name}", command, log, self._inbox, environment)
        self.watch = ProcessWatch(self._child.pid, self.trial.stage.broker_pid)
        self.watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.__exit__()
        self._child.stop()

    def wait_for_rows(self, rows: int, timeout_s: float = ROWS_TIMEOUT_S) -> None:
        """Wait until the process has read this many records since its start."""
        self.wait_until(lambda: sum(batch.rows for batch in self.batches()) >= rows, timeout_s)

    def wait_for_start(self) -> None:
        """Wait until the process says that it works."""
        self.wait_until(
            lambda: any(notice.event == "started" for _, notice in self.notices), START_TIMEOUT_S
        )

    def wait_for_batch(self) -> MeasuredBatch:
        """Wait for the end of the first batch; return the batch."""
        self.wait_until(lambda: bool(self.batches()), START_TIMEOUT_S)
        return self.batches()[0]

    def run_for(self, seconds: float) -> None:
        """Let the process run."""
        deadline_s = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= deadline_s, seconds + 60)

    def wait_until(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Call a condition repeatedly until it holds.

        Raises:
            OperationalError: the process ended, or the condition did not hold in time.
        """
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            self._drain()
            if any(notice.event == "ended" for _, notice in self.notices):
                raise self._child.failure("ended by itself")
            if time.monotonic() > deadline_s:
                raise self._child.failure(f"made too little progress within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the process between two batches.

        Raises:
            OperationalError: the process failed or did not end in time.
        """
        exit_code = self._child.stop(120)
        if exit_code != 0:
            raise self._child.failure(told_exit(exit_code))
        self._drain()
        self.batches()

    def _drain(self) -> None:
        try:
            while True:
                self.notices.append((time.time() * 1_000, self._inbox.get_nowait()))
        except Empty:
            return


@dataclass(slots=True)
class Query(MonitoredProcess):
    """One process with one Spark query: the job's, or the baseline's."""

    program: Sequence[str] = RUN
    settings: Settings | None = None
    options: Sequence[str] = ()
    log: EventLog = field(init=False)

    def command(self) -> Sequence[str]:
        """Write the query's configuration; return the command that starts it."""
        self.log = EventLog(self.folder / "events")
        self.log.folder.mkdir()
        settings = self.settings or self.trial.settings
        config = self.folder / "checkback.toml"
        spark = {**settings.spark, **event_log_settings(self.log.folder)}
        write_settings(config, replace(settings, spark=spark))
        return pipeline_command(config, self.program, self.options)

    def batches(self) -> list[MeasuredBatch]:
        """Return the batches so far."""
        return self.log.read()

    def progress(self) -> list[tuple[float, Mapping[str, Any]]]:
        """Return the job's progress lines, each with its arrival time in ms since 1970."""
        self._drain()
        return [(at, notice.fields) for at, notice in self.notices if notice.event == "progress"]

    def counts(self) -> Counter[str]:
        """Return the sums of the counts in the job's progress lines."""
        total: Counter[str] = Counter()
        for _, fields in self.progress():
            total.update(fields["counts"])
        return total


def stateless_query(trial: Trial, real_topic: str) -> Query:
    """Return the baseline's query over a trial's topics, with a checkpoint of its own."""
    settings = replace(trial.settings, checkpoint=str(trial.folder / "stateless-checkpoint"))
    options = ["--seed", str(trial.stage.seed), "--real-topic", real_topic]
    return Query(trial, "stateless", BASELINE, settings, options)
