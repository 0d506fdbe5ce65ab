"""The options that the verbs for the pipeline share, and the setting that they make of them."""

from __future__ import annotations

import argparse
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.runs.trial import BenchSetting
from checkback.deploy.broker import EmbeddedBroker
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


def count(text: str) -> int:
    """Parse a whole number from 1 on."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def seconds(text: str) -> float:
    """Parse a duration or a rate from 1 on."""
    if not float(text) >= 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return float(text)


class Option(NamedTuple):
    """An option of a verb; its smoke value overrides a given one, unless it is None."""

    name: str
    kind: Callable[[str], object]
    default: object
    smoke: object
    text: str


def client_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Add the options of a verb for the client."""
    parser.add_argument("--bootstrap-servers", help="Use this Kafka instead of starting one.")
    parser.add_argument("--topic-prefix", default="bench-", help="Prefix of the topics.")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    for option in options:
        flag = f"--{option.name.replace('_', '-')}"
        parser.add_argument(flag, type=option.kind, default=option.default, help=option.text)


def pipeline_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Add the options of a verb for the pipeline."""
    client_options(parser, [*COMMON, *options])
    add = parser.add_argument
    add("--setting", action="append", default=[], metavar="KEY=VALUE", help="Of the runs; repeat.")
    add("--smoke", action="store_true", help="A tiny run, only to show that the verb works.")


COMMON: Final = (
    Option("data_dir", Path, None, None, "Folder for all data; it is kept."),
    Option("save", Path, None, None, "Also write the JSON document to this file."),
    Option("seed", int, 7, None, "Chooses bodies and what is rolled back."),
    Option("body_bytes", count, 1_024, None, "Message size."),
)


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that affect the result, for the document."""
    left_out = ("verb", "output", "save", "data_dir", "topic_prefix", "bootstrap_servers")
    found = {name: value for name, value in vars(arguments).items() if name not in left_out}
    settings = found.pop("setting")
    return {**found, "settings": settings, "embedded_broker": arguments.bootstrap_servers is None}


@contextmanager
def bench_setting(arguments: argparse.Namespace) -> Iterator[BenchSetting]:
    """Yield the setting on the named Kafka, or on an embedded broker that runs inside the block."""
    settings = _settings(arguments)
    with _folder(arguments.data_dir) as folder:

        def on(found: Settings, broker_pid: int | None) -> BenchSetting:
            seed, size, small = arguments.seed, arguments.body_bytes, arguments.smoke
            return BenchSetting(found, folder, seed, size, broker_pid, small)

        if settings.bootstrap_servers:
            # A killed run may have left topics there; this run must not read them as its own.
            prefix = f"{settings.topic_prefix}{uuid.uuid4().hex[:6]}-"
            yield on(replace(settings, topic_prefix=prefix), None)
            return
        with EmbeddedBroker(folder / "broker", heap_mb=BROKER_HEAP_MB) as broker:
            found = replace(settings, bootstrap_servers=broker.bootstrap_servers)
            yield on(found, broker.pid)


def _settings(arguments: argparse.Namespace) -> Settings:
    flags: dict[str, object] = {
        **RUN_SETTINGS,
        "topic_prefix": arguments.topic_prefix,
        "bootstrap_servers": arguments.bootstrap_servers or "",
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
