"""What the verbs of ``checkback bench`` share: options, brokers, and how a result is told."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from checkback.bench.machine import machine_facts
from checkback.bench.picture import draw, require_drawing
from checkback.bench.report import (
    MEASURE_HEADINGS,
    RUN_HEADINGS,
    document,
    measure_rows,
    run_rows,
)
from checkback.bench.runs import Findings
from checkback.bench.stage import Stage
from checkback.deploy.broker import EmbeddedBroker
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError
from checkback.streaming.commands.frame import Output
from checkback.streaming.commands.settings import load_settings
from checkback.streaming.commands.table import table_text

Function = TypeVar("Function", bound=Callable[..., Any])

BROKER_HEAP_MB: Final = 1_024
RUN_SETTINGS: Final[Mapping[str, object]] = {
    "transaction_timeout_ms": 3_600_000,
    "progress_interval_ms": 1_000,
    "spark.spark.ui.enabled": "false",
}
"""Of every run, unless --setting says otherwise: nobody is asked back unless that is measured."""


@dataclass(frozen=True, slots=True)
class Common:
    """The options that every verb has, by their names."""

    bootstrap_servers: str | None
    topic_prefix: str
    data_dir: Path | None
    seed: int
    body_bytes: int
    setting: tuple[str, ...]
    smoke: bool
    picture: Path | None
    save: Path | None

    def as_data(self) -> dict[str, object]:
        """Return what bears on the result."""
        return {
            "seed": self.seed,
            "body_bytes": self.body_bytes,
            "settings": list(self.setting),
            "embedded_broker": self.bootstrap_servers is None,
            "smoke": self.smoke,
        }


def common_options(function: Function) -> Function:
    """Add the options that every verb has; pass them on by their names."""
    for option in reversed(
        (
            click.option("--bootstrap-servers", help="Use this Kafka instead of starting one."),
            click.option(
                "--topic-prefix", default="bench-", show_default=True, help="Of the topics used."
            ),
            click.option(
                "--data-dir",
                type=click.Path(file_okay=False, path_type=Path),
                help="Folder for all data; kept. Default: a temporary one.",
            ),
            click.option("--seed", type=int, default=7, show_default=True),
            click.option("--body-bytes", type=click.IntRange(1), default=1_024, show_default=True),
            click.option(
                "--setting",
                multiple=True,
                metavar="KEY=VALUE",
                help="A setting of the runs, spark.* and kafka.* too; can be repeated.",
            ),
            click.option("--smoke", is_flag=True, help="So small that only its working is shown."),
            click.option(
                "--picture",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Draw batch times and rates into this .svg or .png (extra `bench`).",
            ),
            click.option(
                "--save",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write the JSON document into this file, too.",
            ),
        )
    ):
        function = option(function)
    return function


def count_option(
    name: str, default: int, text: str, *, least: int = 40, parameter: str | None = None
) -> Callable[[Function], Function]:
    """Add an option that takes a whole number, under another name of its parameter if given."""
    return click.option(
        *filter(None, (name, parameter)),
        type=click.IntRange(least),
        default=default,
        show_default=True,
        help=text,
    )


runs_option = count_option("--runs", 3, "Of each kind.", least=1)
warm_up_option = click.option(
    "--warm-up",
    type=click.FloatRange(0, 0.9),
    default=0.25,
    show_default=True,
    help="Share of a run that is read before it is measured.",
)
rate_option = click.option(
    "--rate",
    type=click.FloatRange(1),
    default=1_000,
    show_default=True,
    help="Transactions per second.",
)


def batch_events_option(default: int) -> Callable[[Function], Function]:
    """Add ``--batch-events`` with a default."""
    text = "Most halves and ops that one batch takes in."
    return count_option("--batch-events", default, text, least=100)


def transactions_option(default: int) -> Callable[[Function], Function]:
    """Add ``--transactions`` with a default."""
    return count_option("--transactions", default, "In each run.")


def seconds_option(
    name: str, default: float | None, text: str, *, least: float = 1
) -> Callable[[Function], Function]:
    """Add an option that takes seconds."""
    return click.option(
        name, type=click.FloatRange(least), default=default, show_default=True, help=text
    )


def was_given(name: str) -> bool:
    """Tell whether somebody gave that option of the command that runs."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


@contextmanager
def bench_stage(common: Common, **changes: Any) -> Iterator[Stage]:
    """Give a stage on the Kafka that was named, or on one that runs inside the block.

    Args:
        common: the options that every verb has.
        changes: settings of the verb's own.
    """
    settings = replace(_settings(common), **changes)
    if common.picture is not None:
        require_drawing(common.picture)
    machine = machine_facts()
    with _folder(common.data_dir) as folder:

        def stage_on(found: Settings, broker_pid: int | None) -> Stage:
            seed, size, small = common.seed, common.body_bytes, common.smoke
            return Stage(found, folder, seed, size, broker_pid, small, machine)

        if settings.bootstrap_servers:
            # What a run that was killed left there must not be taken for this one's.
            prefix = f"{settings.topic_prefix}{uuid.uuid4().hex[:6]}-"
            yield stage_on(replace(settings, topic_prefix=prefix), None)
            return
        with EmbeddedBroker(folder / "broker", heap_mb=BROKER_HEAP_MB) as broker:
            found = replace(settings, bootstrap_servers=broker.bootstrap_servers)
            yield stage_on(found, broker.pid)


def say(text: str) -> None:
    """Tell a person how far it is."""
    click.echo(f"bench: {text}", err=True)


def show(
    command: str,
    common: Common,
    options: Mapping[str, Any],
    findings: Findings,
    stage: Stage,
    output: Output,
) -> None:
    """Show a result, save it and draw it, as asked."""
    result = document(command, {**common.as_data(), **options}, findings, stage.machine)
    if common.save is not None:
        common.save.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    if common.picture is not None:
        draw(result, common.picture)
        result["picture"] = str(common.picture)
    runs = table_text(RUN_HEADINGS, run_rows(findings))
    measures = table_text(MEASURE_HEADINGS, measure_rows(result))
    output.show(result, f"{runs}\n\n{measures}")


def _settings(common: Common) -> Settings:
    flags: dict[str, object] = {
        **RUN_SETTINGS,
        "topic_prefix": common.topic_prefix,
        "bootstrap_servers": common.bootstrap_servers or "",
    }
    for pair in common.setting:
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
