"""``checkback ledger``: the upkeep of the Delta table of transaction events."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from checkback.commands.shared.options import DurationType
from checkback.commands.shared.output import CommandOutput, output_option
from checkback.commands.shared.settings import settings_options
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger

HOUR_MS: Final = 3_600_000


@click.group(help="Maintain the Delta table of the ledger.")
def command() -> None:
    """Group the verbs."""


@command.command()
@click.option(
    "--retention",
    type=DurationType(),
    default="168h",
    show_default=True,
    help="Delete files that were replaced at least this long ago.",
)
@click.option("--force", is_flag=True, help="Allow a retention of 1h and more.")
@output_option
@settings_options
def maintain(settings: Settings, output: CommandOutput, retention: int, *, force: bool) -> None:
    """Join small files, and delete those that no reader needs.

    Works while the pipeline runs.
    """
    from checkback.sinks.ledger.maintenance import maintain as maintain_ledger
    from checkback.sinks.ledger.maintenance import require_safe

    retention_hours = math.ceil(retention / HOUR_MS)  # not shorter than the user asked for
    require_safe(retention_hours, force=force)
    done = maintain_ledger(_open(settings), retention_hours)
    output.show(
        asdict(done),
        f"{done.files_compacted} files became {done.files_written}; {done.files_deleted} "
        f"older than {duration_text(done.retention_hours * HOUR_MS)} were deleted.",
    )


def _open(settings: Settings) -> DeltaLedger:
    from checkback.sinks.ledger.table import DeltaLedger

    if not settings.ledger:
        raise ConfigurationError(
            "ledger is not set.",
            remedy="Set it in the file that --config names, or with --set ledger=PATH.",
            key="ledger",
        )
    return DeltaLedger.open(settings.ledger)
