"""``checkback pending``: what waits for a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from checkback.deploy.java import find_java
from checkback.operations.durations import duration_text
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings
from checkback.streaming.commands.frame import Output, output_option
from checkback.streaming.commands.operating import listing_options, now_ms
from checkback.streaming.commands.settings import settings_options
from checkback.streaming.commands.table import table_text

HEADINGS = (
    "transaction id", "group", "real topic", "half", "age", "checks", "next check in",
)  # fmt: skip


@click.command()
@listing_options
@output_option
@settings_options
def command(
    settings: Settings, output: Output, older_than: int | None, group: str | None, limit: int
) -> None:
    """List the transactions without a verdict, the oldest first.

    Reads the last committed batch from the checkpoint, also while the pipeline runs.
    """
    find_java()
    # Imported late: Spark takes its time.
    from checkback.checkpoints.pending import read_pending_halves
    from checkback.operations.checkpoint_reading import open_checkpoint
    from checkback.operations.pending import look_up, pending_of_group
    from checkback.sinks.lookup import RecordReader
    from checkback.streaming.preflight import require_settings

    require_settings(settings)
    connection = confluent_settings(settings.bootstrap_servers, settings.kafka)
    until_ms = None if older_than is None else now_ms() - older_than
    reader = RecordReader({**connection, "log_level": 2}, settings.topics.half)
    with open_checkpoint(settings) as folder:
        read = partial(read_pending_halves, folder, stored_until_ms=until_ms, group=group)
        if group is None:
            found = look_up(reader, read(most=limit))
        else:
            found = pending_of_group(lambda most: look_up(reader, read(most=most)), group, limit)
    reader.close()
    now = now_ms()
    rows = [one.as_data(now) for one in found]
    output.show({"pending": rows, "read_at_ms": now}, _text(rows, now))


def _text(rows: Sequence[dict[str, object]], now: int) -> str:
    if not rows:
        return "Nothing is pending."
    return table_text(HEADINGS, [_cells(row, now) for row in rows])


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
