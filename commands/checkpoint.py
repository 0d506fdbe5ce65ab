"""``checkback checkpoint``: inspect, verify, export, repartition and rebuild a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from checkback.commands.checkpoint_changes import export, inspect, problem_line, repartition
from checkback.commands.checkpoint_rebuild import rebuild
from checkback.commands.core import EXIT_FOUND, EXIT_OK, CommandOutput, output_option
from checkback.commands.settings import settings_options
from checkback.commands.table import folded_lines, table_text, terminal_columns
from checkback.protocol.configuration import Settings

if TYPE_CHECKING:
    from checkback.operations.checkpoint.verification import Verification


@click.group(help="Inspect, verify, export, repartition or rebuild a checkpoint.")
def command() -> None:
    """Group the verbs."""


command.add_command(inspect)
command.add_command(export)
command.add_command(repartition)


command.add_command(rebuild)


@command.command()
@click.option("--files-only", is_flag=True, help="Do not check the markers; needs no Kafka.")
@output_option
@settings_options
def verify(settings: Settings, output: CommandOutput, files_only: bool) -> int:
    """Check whether a checkpoint is whole and fits its markers.

    Changes nothing, and may be run while the pipeline runs. Exit code 1: something is wrong or
    missing.
    """
    # Imported late: what reads Kafka loads slowly.
    from checkback.operations.checkpoint.verify import verify_checkpoint
    from checkback.streaming.preflight import require_settings

    require_settings(
        settings, ["checkpoint"] if files_only else ["bootstrap_servers", "checkpoint"]
    )
    found = verify_checkpoint(settings, with_markers=not files_only)
    data = {"checkpoint": settings.checkpoint, **found.as_data()}
    output.show(data, verification_text(settings.checkpoint, found, terminal_columns()))
    return EXIT_OK if found.is_whole else EXIT_FOUND


def verification_text(path: str, found: Verification, columns: int | None) -> str:
    """Return what was found for people, none wider than the terminal.

    Args:
        path: the checkpoint.
        found: what was found in it.
        columns: of the terminal; None: one line for each problem, however wide.
    """
    batches = [
        ("planned", found.planned_batch),
        ("committed", found.committed_batch),
        ("whole up to", found.whole_batch),
    ]
    running = ", its pipeline runs" if found.is_running else ""
    lines = [
        f"{path}: {'whole' if found.is_whole else 'not whole'}" + running,
        f"batches: {', '.join(f'{name} {_dash(number)}' for name, number in batches)}",
    ]
    if found.markers is not None:
        rows = [(number, at - 1 if at else "-") for number, at in sorted(found.markers.items())]
        lines += table_text(("state partition", "last batch written"), rows, columns).split("\n")
    lines += [problem_line(asdict(one)) for one in found.problems]
    return "\n".join(folded_lines(lines, columns))


def _dash(number: int | None) -> str:
    return "-" if number is None else str(number)
