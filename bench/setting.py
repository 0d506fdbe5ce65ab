"""The options of the verbs, and the setting that their runs share."""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from bench.result import Measure, Run
from bench.runs.trial import BenchSetting
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.deploy.settings import load_settings
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError

BROKER_HEAP_MB: Final = 1_024
RUN_SETTINGS: Final[Mapping[str, object]] = {
    "transaction_timeout_ms": 3_600_000,
    "progress_interval_ms": 1_000,
    "spark.spark.ui.enabled": "false",
}
"""Settings of every run; ``--setting`` overrides them. They prevent check requests, except in
benchmarks of those."""


class Option(NamedTuple):
    """An option of a verb; its smoke value, if there is one, overrides a given one."""

    name: str
    default: int | float | str
    smoke: float | None
    text: str

    def parse(self, text: str) -> int | float | str:
        """Parse a value; counts, durations and rates start at 1."""
        if isinstance(self.default, str):
            return text
        value = type(self.default)(text)
        if not value >= 1:
            raise argparse.ArgumentTypeError(f"{text} is less than 1")
        return value


@dataclass(slots=True)
class Bench(ABC):
    """One call of a verb for the pipeline; it keeps the runs behind its measures."""

    stage: BenchSetting
    options: argparse.Namespace
    runs: list[Run] = field(default_factory=list)

    @abstractmethod
    def measure(self) -> list[Measure]:
        """Do all runs; return the measures.

        Raises:
            UsageError: an option is wrong.
            OperationalError: a run failed, or did not do what it should.
        """


def say(text: str) -> None:
    """Print a progress message for a person."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Add the options that every verb has, and those of one verb."""
    add = parser.add_argument
    add("--bootstrap-servers", default="", help="Use this Kafka instead of starting one.")
    add("--topic-prefix", default="bench-", help="Prefix of the topics.")
    add("--output", choices=["text", "json"], default="text")
    add("--save", type=Path, help="Also write the JSON document to this file.")
    add("--data-dir", type=Path, help="Folder for all data; it is kept.")
    add("--seed", type=int, default=7, help="Chooses bodies and what is rolled back.")
    add("--setting", action="append", default=[], metavar="KEY=VALUE", help="Of the runs; repeat.")
    add("--smoke", action="store_true", help="A tiny run, only to show that the verb works.")
    for option in options:
        flag = f"--{option.name.replace('_', '-')}"
        add(flag, type=option.parse, default=option.default, help=option.text)


@contextmanager
def bench_setting(arguments: argparse.Namespace) -> Iterator[BenchSetting]:
    """Yield the setting on the named Kafka, or on an embedded broker that runs inside the block."""
    settings = _settings(arguments)
    with _folder(arguments.data_dir) as folder:
        seed, size, small = arguments.seed, arguments.body_bytes, arguments.smoke
        if settings.bootstrap_servers:
            # A killed run may have left topics there; this run must not read them as its own.
            prefix = f"{settings.topic_prefix}{uuid.uuid4().hex[:6]}-"
            settings = replace(settings, topic_prefix=prefix)
            yield BenchSetting(settings, folder, seed, size, small=small)
            return
        quick = QUICK_START if small else ()
        with EmbeddedBroker(folder / "broker", heap_mb=BROKER_HEAP_MB, jvm_options=quick) as broker:
            settings = replace(settings, bootstrap_servers=broker.bootstrap_servers)
            yield BenchSetting(settings, folder, seed, size, broker.pid, small)


def _settings(arguments: argparse.Namespace) -> Settings:
    flags: dict[str, object] = {
        **RUN_SETTINGS,
        "topic_prefix": arguments.topic_prefix,
        "bootstrap_servers": arguments.bootstrap_servers,
    }
    if "batch_events" in arguments:
        flags["batch_events_max"] = arguments.batch_events
    for pair in arguments.setting:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--setting takes KEY=VALUE, not {key!r}.")
        flags[key] = value
    return load_settings(None, {}, flags)


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder:
            yield Path(folder)
        return
    if chosen.is_dir() and any(chosen.iterdir()):
        raise UsageError(
            f"The folder {chosen} is not empty.", remedy="Name a new one with --data-dir."
        )
    chosen.mkdir(parents=True, exist_ok=True)
    yield chosen.absolute()
