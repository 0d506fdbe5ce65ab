"""A Spark query in a process of its own, watched from outside: the job's or a baseline's."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from checkback.bench.event_log import Batch, EventLog, event_log_settings
from checkback.bench.stage import Trial
from checkback.bench.watched import Launch, Watched
from checkback.deploy.settings_file import environment_without_settings, write_settings
from checkback.protocol.configuration import Settings

RUN: Final = ("-c", "from checkback.streaming.commands import main; main()", "run")
BASELINE: Final = ("-m", "checkback.bench.baseline")


@dataclass(slots=True)
class Query(Watched):
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
    log: EventLog = field(default_factory=lambda: EventLog(Path()), init=False)

    def prepare(self) -> Launch:
        """Write its configuration; return how to start it."""
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
            [
                sys.executable, *self.program, "--config", str(config), "--output", "json",
                *self.options,
            ],
            folder / "errors.log",
            {**environment_without_settings(), **self.environment},
            Path(settings.checkpoint),
            self.others,
            self.trial.stage.broker_pid,
        )  # fmt: skip

    def batches(self) -> list[Batch]:
        """Return the batches so far."""
        return self.log.read()

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


def told(fields: Mapping[str, Any]) -> None:
    """Say something to the process that watches this one."""
    print(json.dumps(fields), flush=True)
