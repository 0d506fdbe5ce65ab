"""``checkback demo``: run all of Checkback on real input, and audit the result."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.demo.fates import ORDERS_MIN, plan_orders
from checkback.demo.report import DemoReport, Timeline, fate_table, folded
from checkback.demo.run import DEMO, Demonstration, demo_settings
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.deploy.jars import ensure_jars
from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import UsageError


@click.command()
@click.option(
    "--orders", type=click.IntRange(ORDERS_MIN), default=300, show_default=True,
    help="How many orders to send.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Decides which order gets which fate."
)
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path),
    help="Empty or new folder for all files of the demo; it is kept. Default: a temporary one.",
)  # fmt: skip
@click.option("--relay", is_flag=True, help="Run a relay beside the pipeline.")
@click.option("--keep", is_flag=True, help="Keep the folder even if the audit passes.")
@output_option
def command(
    orders: int,
    seed: int,
    data_dir: Path | None,
    relay: bool,
    keep: bool,
    output: CommandOutput,
) -> int:
    """Send orders of every fate, kill their producer, and audit the real topics.

    Starts a Kafka broker, the pipeline and an order service with a SQLite database, waits until
    every transaction is settled, and compares the real topics with the database.

    Exit code 1: a message is missing, doubled, or there though its order was not committed.
    """
    find_java()
    planned = plan_orders(orders, seed)
    console = Console(stderr=output.as_json, highlight=False)
    with _ended_in_order(), _folder(data_dir) as folder, Timeline(console) as timeline:
        with _stage(folder, timeline, relay=relay) as settings:
            report = Demonstration(settings, folder, planned, seed, timeline).run()
        if keep or data_dir or report.findings:
            report = replace(report, data_dir=str(folder))
        else:
            shutil.rmtree(folder)
    _show(report, output, console)
    return EXIT_FOUND if report.findings else EXIT_OK


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: the demo first ends every process that it started."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """Yield the folder for the run; after an error keep it and print its path."""
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
def _stage(folder: Path, timeline: Timeline, *, relay: bool) -> Iterator[Settings]:
    """Yield the settings of a run on an embedded broker that runs inside the block."""
    timeline.say(DEMO, "starts a Kafka broker")
    ensure_jars("spark")  # a missing jar should be reported before anything runs
    with EmbeddedBroker(folder / "broker", jvm_options=QUICK_START) as broker:
        timeline.say(DEMO, f"Kafka answers at {broker.bootstrap_servers}")
        yield demo_settings(broker.bootstrap_servers, folder, relay=relay)


def _show(report: DemoReport, output: CommandOutput, console: Console) -> None:
    if output.as_json:
        output.show(report.as_data(), "")
        return
    console.print()
    console.print(fate_table(report.fates))
    console.print()
    for finding in report.findings:
        _say(console, f"{finding.kind}: {finding.order_id or '(no key)'}: {finding.text}")
    _say(console, report.verdict())
    took = duration_text(round(report.duration_s) * 1_000)
    console.print(f"{report.kills} producer processes killed, {took}.")
    if report.data_dir:
        console.print(f"Kept in {report.data_dir}.", soft_wrap=True)
    sys.stdout.flush()


def _say(console: Console, text: str) -> None:
    console.print("\n".join(folded(console, text)), soft_wrap=True, markup=False)
