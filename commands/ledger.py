"""``checkback ledger``: read and maintain the Delta table of transaction events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from checkback.commands.core import CommandOutput, output_option
from checkback.commands.operator_options import DurationType, listing_options
from checkback.commands.settings import settings_options
from checkback.commands.table import table_text, terminal_columns, terminal_text
from checkback.deploy.jars import ensure_jars
from checkback.operations.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger

HEADINGS: Final = (
    "transaction id", "group", "real topic", "half", "age", "checks",
)  # fmt: skip
HOUR_MS: Final = 3_600_000


@click.group(help="Read and maintain the Delta table of transaction events.")
def command() -> None:
    """Group the verbs."""


@command.command()
@listing_options
@output_option
@settings_options
def pending(
    settings: Settings, output: CommandOutput, older_than: int | None, group: str | None, limit: int
) -> None:
    """List the transactions that have no verdict in the ledger."""
    from checkback.sinks.ledger.view import read_pending  # late: delta-rs loads slowly

    ledger = _open(settings)
    now = now_ms()
    until_ms = None if older_than is None else now - older_than
    found = read_pending(ledger, limit, stored_until_ms=until_ms, group=group)
    rows = [_as_data(row, now) for row in found]
    output.show({"pending": rows, "version": ledger.table.version()}, _text(rows))


@command.command()
@click.option("--name", default="pending", show_default=True, help="Name of the view.")
@click.option(
    "--sql-only",
    is_flag=True,
    help="Print only the statement, for a Spark that already knows Delta.",
)
@output_option
@settings_options
def view(settings: Settings, output: CommandOutput, name: str, *, sql_only: bool) -> None:
    """Print the Spark statement for a view of what is pending.

    With the settings that a Spark session needs for it. Run the statement where you want the view:
    a Delta table without a catalog can't hold views. The command fetches Delta's jars if they are
    missing; the pipeline does not need them.
    """
    from checkback.sinks.ledger.view import session_settings, view_statement

    statement = view_statement(_open(settings).table.table_uri, name)
    if sql_only:
        output.show({"statement": statement}, f"{statement};")
        return
    session = session_settings(ensure_jars("delta"))
    comments = [f"--   {key}={value}" for key, value in session.items()]
    output.show(
        {"statement": statement, "spark": session},
        "\n".join(["-- For a Spark session with these settings:", *comments, f"{statement};"]),
    )


@command.command()
@click.option(
    "--retention",
    type=DurationType(),
    default="168h",
    show_default=True,
    help="Delete files that were replaced at least this long ago.",
)
@click.option(
    "--longest-reader",
    type=DurationType(),
    default="1h",
    show_default=True,
    help="Duration of the longest query over the ledger; the retention is never shorter.",
)
@click.option("--force", is_flag=True, help="Allow a retention of less than 168h.")
@output_option
@settings_options
def maintain(
    settings: Settings, output: CommandOutput, retention: int, longest_reader: int, *, force: bool
) -> None:
    """Join small files, and delete those that no reader needs.

    Works while the pipeline runs.
    """
    from checkback.sinks.ledger.maintenance import maintain as maintain_ledger
    from checkback.sinks.ledger.maintenance import require_safe

    # Rounded up, so that neither is shorter than the user asked for.
    retention_hours, reader_hours = (
        math.ceil(one / HOUR_MS) for one in (retention, longest_reader)
    )
    require_safe(retention_hours, reader_hours, force=force)
    done = maintain_ledger(_open(settings), retention_hours)
    output.show(
        asdict(done),
        terminal_text(
            f"{done.files_compacted} files became {done.files_written}; {done.files_deleted} "
            f"older than {duration_text(done.retention_hours * HOUR_MS)} were deleted."
        ),
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


def _as_data(row: dict[str, Any], now: int) -> dict[str, Any]:
    store_ms, asked_ms = _milliseconds(row["store_time"]), _milliseconds(row["asked_time"])
    return {
        "transaction_id": row["transaction_id"],
        "group": row["producer_group"],
        "real_topic": row["real_topic"],
        "half_partition": row["half_partition"],
        "half_offset": row["half_offset"],
        "half_time_ms": store_ms,
        "age_ms": None if store_ms is None else now - store_ms,
        "check_times": row["check_times"],
        "asked_at_ms": asked_ms,
    }


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000)


def _text(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "Nothing is pending."
    return table_text(HEADINGS, [_cells(row) for row in rows], terminal_columns())


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    age_ms = row["age_ms"]
    return (
        row["transaction_id"] or "(the half was gone)",
        row["group"],
        row["real_topic"],
        f"{row['half_partition']}:{row['half_offset']}",
        "" if age_ms is None else duration_text(age_ms),
        row["check_times"],
    )
