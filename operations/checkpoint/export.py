"""``checkback checkpoint export``: write the pending transactions to a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.pending_halves import PendingHalf, oldest_pending
from checkback.checkpoints.state_rows import read_state
from checkback.operations.pending_transactions import look_up
from checkback.sinks.kafka.lookup import RecordReader

ROWS_AT_ONCE: Final = 10_000
EVERYTHING: Final = 2**31 - 1
SCHEMA: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("group", pa.string()),
        ("real_topic", pa.string()),
        ("half_partition", pa.int32()),
        ("half_offset", pa.int64()),
        ("half_time_ms", pa.int64()),
        ("age_ms", pa.int64()),
        ("check_times", pa.int64()),
        ("next_check_ms", pa.int64()),
    ]
)
"""The keys of `checkback pending`; if the half is gone from its topic, the names are empty."""

Rows = Sequence[dict[str, Any]]
Write = Callable[[Rows], None]


def export_pending(
    store: ReadableCheckpoint,
    reader: RecordReader,
    path: Path,
    form: str,
    now_ms: int,
) -> int:
    """Write every pending transaction to a file, the oldest first; return how many.

    Args:
        store: the checkpoint.
        reader: reads the half topic.
        path: the file; an existing one is replaced.
        form: one of FORMATS.
        now_ms: the time from which ages are counted.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
        CheckpointError: the state can't be read.
    """
    held = read_state(store)
    halves = [] if held is None else oldest_pending(held.pages, most=EVERYTHING)
    with FORMATS[form](path) as write:
        for chosen in _in_parts(halves):
            write([one.as_data(now_ms) for one in look_up(reader, chosen)])
    return len(halves)


def _in_parts(halves: Sequence[PendingHalf]) -> Iterator[Sequence[PendingHalf]]:
    for first in range(0, len(halves), ROWS_AT_ONCE):
        yield halves[first : first + ROWS_AT_ONCE]


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(rows: Rows) -> None:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)

        yield write


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    with path.open("wb") as file, pyarrow.csv.CSVWriter(file, SCHEMA) as writer:
        yield lambda rows: writer.write_table(pa.Table.from_pylist(list(rows), SCHEMA))


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    with path.open("wb") as file, pyarrow.parquet.ParquetWriter(file, SCHEMA) as writer:
        yield lambda rows: writer.write_table(pa.Table.from_pylist(list(rows), SCHEMA))


FORMATS: Final[dict[str, Callable[[Path], AbstractContextManager[Write]]]] = {
    "jsonl": _json_lines,
    "csv": _csv,
    "parquet": _parquet,
}
