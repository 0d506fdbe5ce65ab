"""What the verbs of ``checkback bench`` share: brokers, and how a result is shown."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import click

from checkback.bench.machine import machine_facts
from checkback.bench.options import CommonOptions
from checkback.bench.result_document import (
    MEASURE_HEADINGS,
    RUN_HEADINGS,
    document,
    measure_rows,
    run_rows,
)
from checkback.bench.runs import BenchFindings
from checkback.bench.stage import BenchSetting
from checkback.commands.core import CommandOutput
from checkback.commands.table import table_text, terminal_columns
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


@contextmanager
def bench_stage(common: CommonOptions, **changes: Any) -> Iterator[BenchSetting]:
    """Yield a stage on the named Kafka, or on an embedded broker that runs inside the block.

    Args:
        common: the options that every verb has.
        changes: settings of the verb's own.
    """
    settings = replace(_settings(common), **changes)
    if common.picture is not None:
        from checkback.bench.repository.picture import require_drawing

        require_drawing(common.picture)
    machine = machine_facts()
    with _folder(common.data_dir) as folder:

        def stage_on(found: Settings, broker_pid: int | None) -> BenchSetting:
            seed, size, small = common.seed, common.body_bytes, common.smoke
            return BenchSetting(found, folder, seed, size, broker_pid, small, machine)

        if settings.bootstrap_servers:
            # A killed run may have left topics there; this run must not read them as its own.
            prefix = f"{settings.topic_prefix}{uuid.uuid4().hex[:6]}-"
            yield stage_on(replace(settings, topic_prefix=prefix), None)
            return
        with EmbeddedBroker(folder / "broker", heap_mb=BROKER_HEAP_MB) as broker:
            found = replace(settings, bootstrap_servers=broker.bootstrap_servers)
            yield stage_on(found, broker.pid)


def say(text: str) -> None:
    """Print a progress message for a person."""
    click.echo(f"bench: {text}", err=True)


def show(
    command: str,
    common: CommonOptions,
    options: Any,
    findings: BenchFindings,
    stage: BenchSetting,
    output: CommandOutput,
) -> None:
    """Show a result, and save and draw it if the options ask for that.

    Args:
        command: the verb.
        common: the options that every verb has.
        options: the verb's own.
        findings: what the runs found.
        stage: the brokers, settings and folders of the runs.
        output: prints for people or for programs.
    """
    result = document(command, {**common.as_data(), **asdict(options)}, findings, stage.machine)
    if common.save is not None:
        common.save.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    if common.picture is not None:
        from checkback.bench.repository.picture import draw

        draw(result, common.picture)
        result["picture"] = str(common.picture)
    columns = terminal_columns()
    runs = table_text(RUN_HEADINGS, run_rows(findings), columns)
    measures = table_text(MEASURE_HEADINGS, measure_rows(result), columns)
    output.show(result, f"{runs}\n\n{measures}")


def _settings(common: CommonOptions) -> Settings:
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
