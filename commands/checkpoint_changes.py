"""``checkback checkpoint``: the verbs inspect, export and repartition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from checkback.commands.core import CommandOutput, output_option
from checkback.commands.operator_options import yes_option
from checkback.commands.settings import settings_options
from checkback.commands.table import folded_lines, table_text, terminal_columns, terminal_text
from checkback.deploy.java import find_java
from checkback.operations.timestamps import now_ms, time_text
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text

FORMATS = ("jsonl", "csv", "parquet")


@click.command()
@output_option
@settings_options
def inspect(settings: Settings, output: CommandOutput) -> None:
    """Show what a checkpoint holds.

    Batches, offsets, lag, state and pending halves. Reads the last committed batch, also while the
    pipeline runs.
    """
    # Imported late: what reads Kafka and the state loads slowly.
    from checkback.operations.checkpoint.inspection import inspect as look
    from checkback.operations.checkpoint.opening import open_state
    from checkback.streaming.preflight import require_settings

    require_settings(settings)
    with open_state(settings) as store:
        data = look(settings, store).as_data(now_ms())
    text = inspection_text(data, terminal_columns())
    output.show({"checkpoint": settings.checkpoint, **data}, text)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="jsonl",
    show_default=True,
    help="JSON lines, CSV or Parquet.",
)
@output_option
@settings_options
def export(settings: Settings, output: CommandOutput, file: Path, form: str) -> None:
    """Write every pending transaction to FILE, the oldest first.

    Reads the last committed batch, also while the pipeline runs.
    """
    # Imported late: what reads Kafka and the state loads slowly.
    from checkback.operations.checkpoint.export import export_pending
    from checkback.operations.checkpoint.opening import open_state
    from checkback.operations.pending_transactions import half_reader
    from checkback.streaming.preflight import require_settings

    require_settings(settings)
    reader = half_reader(settings)
    try:
        with open_state(settings) as store:
            exported = export_pending(store, reader, file, form, now_ms())
    finally:
        reader.close()
    output.show(
        {"exported": exported, "file": str(file), "format": form},
        terminal_text(f"{exported} pending transactions written to {file}"),
    )


@click.command()
@click.argument("partitions", metavar="N", type=click.IntRange(min=1))
@yes_option
@output_option
@settings_options
def repartition(
    settings: Settings, output: CommandOutput, partitions: int, is_certain: bool
) -> None:
    """Change a checkpoint to N state partitions. Stop the pipeline first.

    Without --yes the command only says what it would do. Afterwards set state_partitions to N, or
    leave the setting out.
    """
    find_java()
    # Imported late, because Spark loads slowly.
    from checkback.operations.checkpoint.opening import open_checkpoint
    from checkback.operations.checkpoint.repartition import look_ahead, require_not_running
    from checkback.operations.checkpoint.repartition import repartition as change
    from checkback.streaming.preflight import require_settings

    require_settings(settings)
    require_not_running(settings)  # before Spark, which takes ten seconds to start
    with open_checkpoint(settings) as (spark, store):
        if not is_certain:
            plan = look_ahead(settings, store, partitions)
            output.show(
                {"dry_run": True, "before": plan.before, "after": plan.after},
                terminal_text(
                    f"{plan.before} state partitions would become {plan.after}. "
                    "Run again with --yes to do it."
                ),
            )
            return
        done = change(settings, spark, store, partitions)
    output.show(
        {"dry_run": False, **done.as_data()},
        terminal_text(
            f"{done.before} state partitions became {done.after}, in batch {done.batch_id}. "
            f"Set state_partitions to {done.after}, or leave it out."
        ),
    )


def inspection_text(data: dict[str, Any], columns: int | None) -> str:
    """Return what a checkpoint holds for people, none wider than the terminal.

    Args:
        data: of the inspection.
        columns: of the terminal; None: one line for each row and problem, however wide.
    """
    oldest, at = data["oldest_pending_ms"], data["committed_at_ms"]
    facts = [
        ("application", data["application_id"]),
        ("query id", data["query_id"]),
        ("planned batch", _dash(data["planned_batch"])),
        ("committed batch", _dash(data["committed_batch"])),
        ("of", "-" if at is None else time_text(at)),
        ("records not read yet", _dash(data["lag"])),
        ("pending", data["pending"]),
        ("oldest pending", "-" if oldest is None else duration_text(oldest)),
        ("page size", data["page_size"]),
    ]
    parts = [table_text(("", ""), facts).strip("\n").split("\n")]
    parts += [[problem_line(one)] for one in data["problems"]]
    told, *problems = ["\n".join(folded_lines(part, columns)) for part in parts]
    tables = [_positions_text(data, columns), _state_text(data, columns)]
    return "\n\n".join([told, *tables, *problems])


def problem_line(problem: Mapping[str, str]) -> str:
    """Return one of a checkpoint's problems for people, with what to do about it.

    Args:
        problem: as data; its file is empty where it has none.
    """
    at = f"{problem['code']} {problem['file']}".rstrip()
    return f"{at}: {problem['says']} {problem['remedy']}"


def _positions_text(data: dict[str, Any], columns: int | None) -> str:
    keys = ("topic", "partition", "committed", "planned", "end", "lag")
    rows = [[_dash(one[key]) for key in keys] for one in data["positions"]]
    return table_text(keys, rows, columns)


def _state_text(data: dict[str, Any], columns: int | None) -> str:
    headings = ("state partition", "pages", "page bytes", "file bytes", "pending", "next batch")
    keys = ("state_partition", "pages", "page_bytes", "file_bytes", "pending", "next_batch")
    rows = [[_dash(one[key]) for key in keys] for one in data["state"]]
    return table_text(headings, rows, columns)


def _dash(value: object) -> str:
    return "-" if value is None else str(value)
