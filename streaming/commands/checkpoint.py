"""``checkback checkpoint``: look into a checkpoint, and mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from checkback.deploy.java import find_java
from checkback.protocol.configuration import Settings
from checkback.streaming.commands.checkpoint_changes import export, inspect, repartition
from checkback.streaming.commands.checkpoint_rebuild import rebuild
from checkback.streaming.commands.frame import EXIT_FOUND, EXIT_OK, Output, output_option
from checkback.streaming.commands.settings import settings_options
from checkback.streaming.commands.table import table_text

if TYPE_CHECKING:
    from checkback.checkpoints.verification import Verification


@click.group(help="Look into a checkpoint, change its partitions, export what it holds.")
def command() -> None:
    """Group the verbs."""


command.add_command(inspect)
command.add_command(export)
command.add_command(repartition)


command.add_command(rebuild)


@command.command()
@click.option(
    "--files-only", is_flag=True, help="Leave the markers out; Kafka need not be reached."
)
@output_option
@settings_options
def verify(settings: Settings, output: Output, files_only: bool) -> int:
    """Look whether a checkpoint is whole, and whether its markers fit.

    Changes nothing. While the pipeline runs, files come and go: stop it for a verdict that counts.
    Exit code 1: something is wrong, or missing.
    """
    find_java()
    # Imported late: pyspark takes its time.
    from checkback.operations.verifying import verify_checkpoint
    from checkback.streaming.preflight import require_settings

    require_settings(settings)
    found = verify_checkpoint(settings, with_markers=not files_only)
    data = {"checkpoint": settings.checkpoint, **found.as_data()}
    output.show(data, _verification_text(settings.checkpoint, found))
    return EXIT_OK if found.is_whole else EXIT_FOUND


def _verification_text(path: str, found: Verification) -> str:
    batches = [
        ("planned", found.planned_batch),
        ("committed", found.committed_batch),
        ("whole up to", found.whole_batch),
    ]
    lines = [
        f"{path}: {'whole' if found.is_whole else 'not as it has to be'}",
        f"batches: {', '.join(f'{name} {_dash(number)}' for name, number in batches)}",
    ]
    if found.markers is not None:
        rows = [(number, at - 1) for number, at in sorted(found.markers.items())]
        lines.append(table_text(("state partition", "last batch written"), rows))
    lines += [f"{one.code} {one.file}: {one.says} {one.remedy}" for one in found.problems]
    return "\n".join(lines)


def _dash(number: int | None) -> str:
    return "-" if number is None else str(number)
