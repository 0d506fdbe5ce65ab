"""``checkback pending``: list the transactions without a verdict."""

from __future__ import annotations

import click

from checkback.commands.shared.options import DurationType, ago_ms
from checkback.commands.shared.output import CommandOutput, list_text, output_option
from checkback.commands.shared.settings import settings_options
from checkback.operations.transactions.timestamps import now_ms
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text

HEADINGS = (
    "transaction id", "group", "real topic", "half", "age", "checks", "next check in",
)  # fmt: skip


@click.command()
@click.option(
    "--older-than", type=DurationType(), help="Only halves of at least this age: 10m, 2h."
)
@click.option("--group", help="Only halves of this producer group.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most this many."
)
@output_option
@settings_options
def command(
    settings: Settings, output: CommandOutput, older_than: int | None, group: str | None, limit: int
) -> None:
    """List the transactions without a verdict, the oldest first.

    Reads the last committed batch from the checkpoint, also while the pipeline runs.
    """
    # Imported late: what reads Kafka and the state loads slowly.
    from checkback.operations.transactions.pending import oldest_transactions
    from checkback.streaming.start.preflight import require_settings

    require_settings(settings)
    found = oldest_transactions(settings, limit, stored_until_ms=ago_ms(older_than), group=group)
    now = now_ms()
    rows = [transaction.as_data(now) for transaction in found]
    cells = [_cells(row, now) for row in rows]
    is_filtered = older_than is not None or group is not None
    text = list_text(HEADINGS, cells, "Nothing is pending.", is_filtered=is_filtered)
    output.show({"pending": rows, "read_at_ms": now}, text)


def _cells(row: dict[str, object], now: int) -> tuple[object, ...]:
    age_ms, next_check_ms = int(str(row["age_ms"])), int(str(row["next_check_ms"]))
    return (
        row["transaction_id"] or "(the half is gone)",
        row["group"],
        row["real_topic"],
        f"{row['half_partition']}:{row['half_offset']}",
        duration_text(age_ms),
        row["check_times"],
        "due" if next_check_ms <= now else duration_text(next_check_ms - now),
    )
