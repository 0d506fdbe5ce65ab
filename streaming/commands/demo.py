"""``checkback demo``: the whole of Checkback on real input, and an audit of what came out."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from checkback.deploy.broker import EmbeddedBroker
from checkback.deploy.demo.demonstration import DEMO, Demonstration
from checkback.deploy.demo.fates import ORDERS_MIN, plan_orders
from checkback.deploy.demo.report import DemoReport, fate_table
from checkback.deploy.demo.stage import Stage, demo_settings
from checkback.deploy.demo.timeline import Timeline
from checkback.deploy.jars import ensure_jars
from checkback.protocol.errors import UsageError
from checkback.streaming.commands.frame import EXIT_FOUND, EXIT_OK, Output, output_option
from checkback.streaming.commands.settings import LoadedSettings, load_with_sources


@click.command()
@click.option(
    "--orders", type=click.IntRange(ORDERS_MIN), default=300, show_default=True,
    help="How many orders are sent.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Decides which order meets which fate."
)
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path),
    help="Empty or new folder for everything the demo writes; it is kept. Else a temporary one.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep folder and topics when the audit passes, too.")
@click.option("--bootstrap-servers", help="Use this Kafka instead of starting one.")
@click.option(
    "--kafka", multiple=True, metavar="KEY=VALUE", help="Setting of its Kafka clients; repeatable."
)
@click.option(
    "--config", type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file of settings; those it does not set are the demo's short ones.",
)  # fmt: skip
@output_option
def command(
    orders: int,
    seed: int,
    data_dir: Path | None,
    keep: bool,
    bootstrap_servers: str | None,
    kafka: Sequence[str],
    config: Path | None,
    output: Output,
) -> int:
    """Send orders of every fate, kill their producer, and audit what reached the real topics.

    Starts a Kafka broker, the pipeline and an order service with a SQLite database, waits until
    every transaction is settled, and compares the real topics with the database.

    Exit code 1: an order is missing, doubled or wrongly there.
    """
    planned = plan_orders(orders, seed)
    loaded = load_with_sources(config, {}, _flags(bootstrap_servers, kafka))
    console = Console(stderr=output.as_json, highlight=False)
    with _ended_in_order(), _folder(data_dir) as folder, Timeline(console) as timeline:
        with _stage(folder, loaded, timeline, keep=keep) as stage:
            report = Demonstration(stage, planned, seed, timeline).run()
        if keep or data_dir or report.findings:
            report = replace(report, data_dir=str(folder))
        else:
            shutil.rmtree(folder)
    _show(report, output, console)
    return EXIT_FOUND if report.findings else EXIT_OK


def _flags(bootstrap_servers: str | None, kafka: Sequence[str]) -> dict[str, object]:
    flags: dict[str, object] = {}
    if bootstrap_servers:
        flags["bootstrap_servers"] = bootstrap_servers
    for pair in kafka:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--kafka takes KEY=VALUE, not {key!r}.")
        flags[f"kafka.{key.removeprefix('kafka.')}"] = value
    return flags


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: every process that was started is ended first."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """Give the folder for the run; after an error it stays, with a word on where it is."""
    if chosen is not None and chosen.is_dir() and any(chosen.iterdir()):
        raise UsageError(
            f"The folder {chosen} is not empty.", remedy="Name a new one with --data-dir."
        )
    folder = Path(tempfile.mkdtemp(prefix="checkback-demo-")) if chosen is None else chosen
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder.absolute()
    except KeyboardInterrupt:
        if chosen is None:
            shutil.rmtree(folder)
        raise
    except BaseException:
        click.echo(f"The demo's logs and data are kept in {folder}.", err=True)
        raise


@contextmanager
def _stage(
    folder: Path, loaded: LoadedSettings, timeline: Timeline, *, keep: bool
) -> Iterator[Stage]:
    """Give a stage on the Kafka that was named, or on one that runs inside the block."""
    set_keys = {key for key, source in loaded.sources.items() if source != "default"}
    chosen = replace(loaded.settings, checkpoint=str(folder / "checkpoint"))
    if chosen.bootstrap_servers:
        prefix = f"demo-{uuid.uuid4().hex[:8]}-"
        stage = Stage(demo_settings(chosen, set_keys, prefix=prefix), folder)
        timeline.say(DEMO, f"uses Kafka at {chosen.bootstrap_servers}, topics {prefix}*")
        yield stage
        if not keep:
            stage.delete_topics()
        return
    timeline.say(DEMO, "starts a Kafka broker")
    ensure_jars("spark")  # what is missing should be said before anything runs
    with EmbeddedBroker(folder / "broker") as broker:
        timeline.say(DEMO, f"Kafka answers at {broker.bootstrap_servers}")
        settings = replace(chosen, bootstrap_servers=broker.bootstrap_servers)
        yield Stage(demo_settings(settings, set_keys, prefix=""), folder)


def _show(report: DemoReport, output: Output, console: Console) -> None:
    if output.as_json:
        output.show(report.as_data(), "")
        return
    console.print()
    console.print(fate_table(report.fates))
    console.print()
    for finding in report.findings:
        console.print(f"{finding.kind}: {finding.order_id or '(no key)'}: {finding.text}")
    console.print(report.verdict(), soft_wrap=True)
    console.print(f"{report.kills} producer processes killed, {report.duration_s:.0f} s.")
    if report.data_dir:
        console.print(f"Kept in {report.data_dir}.", soft_wrap=True)
    sys.stdout.flush()
