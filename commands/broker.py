"""``checkback broker``: a local Kafka broker that keeps running."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

import click

from checkback.commands.shared.errors import EXIT_FOUND, EXIT_OK
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.deploy.broker import HEAP_MB, STOP_TIMEOUT_S, EmbeddedBroker
from checkback.deploy.broker_files import BrokerFolder, BrokerRecord
from checkback.protocol.errors import UsageError

POLL_INTERVAL_S: Final = 0.1

data_dir_option = click.option(
    "--data-dir",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the broker's data and logs.",
)


@click.group(help="Run a local Kafka broker.")
def command() -> None:
    """Group the verbs."""


@command.command()
@data_dir_option
@click.option(
    "--port", type=click.IntRange(1, 65_535), help="Port for clients; default: a free one."
)
@click.option("--heap-mb", type=click.IntRange(min=128), default=HEAP_MB, show_default=True)
@output_option
def start(data_dir: Path, port: int | None, heap_mb: int, output: CommandOutput) -> None:
    """Start a broker, wait until it answers, and leave it running.

    If a broker already runs on that folder, print its address.
    """
    record = BrokerFolder(data_dir.absolute()).running()
    if record is not None:
        if port is not None and not record.bootstrap_servers.endswith(f":{port}"):
            raise UsageError(
                f"The folder's broker already runs at {record.bootstrap_servers}.",
                remedy="Stop it first or leave --port out.",
            )
    else:
        broker = EmbeddedBroker(data_dir, port, heap_mb=heap_mb)
        broker.start()
        broker.leave_running()
        record = BrokerRecord(broker.pid or 0, broker.bootstrap_servers)
    output.show(
        {"bootstrap_servers": record.bootstrap_servers, "pid": record.pid},
        f"Kafka answers at {record.bootstrap_servers} (pid {record.pid}).",
    )


@command.command()
@data_dir_option
@output_option
def stop(data_dir: Path, output: CommandOutput) -> None:
    """Stop the broker of a folder. Does nothing if no broker runs."""
    folder = BrokerFolder(data_dir.absolute())
    record = folder.running()
    if record is not None:
        _end(folder, record)
    folder.remove_record()
    pid = record.pid if record else None
    output.show(
        {"stopped": record is not None, "pid": pid},
        f"Stopped (pid {pid})." if record else f"No broker runs on {data_dir}.",
    )


@command.command()
@data_dir_option
@output_option
def status(data_dir: Path, output: CommandOutput) -> int:
    """Say whether a broker runs on a folder, and at which address. Exit code 1 if none runs."""
    record = BrokerFolder(data_dir.absolute()).running()
    if record is None:
        output.show({"running": False}, f"No broker runs on {data_dir}.")
        return EXIT_FOUND
    output.show(
        {"running": True, "bootstrap_servers": record.bootstrap_servers, "pid": record.pid},
        f"Kafka runs at {record.bootstrap_servers} (pid {record.pid}).",
    )
    return EXIT_OK


def _end(folder: BrokerFolder, record: BrokerRecord) -> None:
    """Stop the broker with SIGTERM, and with SIGKILL if that takes too long."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        os.kill(record.pid, number)
        while time.monotonic() < deadline_s:
            if folder.running() is None:
                return
            time.sleep(POLL_INTERVAL_S)
