"""A Spark query in a process of its own, watched from outside: the job's or a baseline's."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from checkback.bench.event_log import EventLog, MeasuredBatch, event_log_settings
from checkback.bench.monitored_process import Launch, MonitoredProcess
from checkback.bench.stage import Trial
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import RUN, pipeline_command

BASELINE: Final = (sys.executable, "-m", "checkback.bench.baseline")


@dataclass(slots=True)
class Query(MonitoredProcess):
    """One process with one query; a context manager that ends it.

    Args:
        trial: its topics and settings.
        name: name of its log folder; no other query of the trial has it.
        program: the command to run; ``--config`` and ``--output json`` are appended.
        settings: its settings; default: the trial's.
        options: further arguments.
        environment: variables besides those of this process.
        others: further processes that count, with their descendants.
    """

    trial: Trial
    name: str
    program: Sequence[str] = RUN
    settings: Settings | None = None
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[int] = ()
    log: EventLog = field(default_factory=lambda: EventLog(Path()), init=False)

    def prepare(self) -> Launch:
        """Write the query's configuration; return how to start it."""
        folder = self.trial.folder / self.name
        events = folder / "events"
        events.mkdir(parents=True)
        self.log = EventLog(events)
        settings = self.settings or self.trial.settings
        config = folder / "checkback.toml"
        spark = {**settings.spark, **event_log_settings(events)}
        write_settings(config, replace(settings, spark=spark))
        return Launch(
            self.name,
            pipeline_command(config, self.program, self.options),
            folder / "errors.log",
            {**environment_without_settings(), **self.environment},
            Path(settings.checkpoint),
            self.others,
            self.trial.stage.broker_pid,
        )

    def batches(self) -> list[MeasuredBatch]:
        """Return the batches so far."""
        return self.log.read()

    def progress(self) -> list[tuple[float, Mapping[str, Any]]]:
        """Return the job's progress lines, each with its arrival time in ms since 1970."""
        self._drain()
        return [(at, one.fields) for at, one in self.notices if one.event == "progress"]

    def counts(self) -> Counter[str]:
        """Return the sums of the counts in the job's progress lines."""
        total: Counter[str] = Counter()
        for _, fields in self.progress():
            total.update(fields["counts"])
        return total


def told(fields: Mapping[str, Any]) -> None:
    """Print a line for the process that watches this one."""
    print(json.dumps(fields), flush=True)
