"""What a checkpoint holds, in figures: the state by partition, and how far it has read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.logs import Offsets
from checkback.checkpoints.status import wake_state_readers
from checkback.state import Page

_SCHEMA: Final = "state_partition int, pages long, page_bytes long, pending long, oldest_ms long"
_ARROW: Final = pa.schema(
    [
        ("state_partition", pa.int32()),
        ("pages", pa.int64()),
        ("page_bytes", pa.int64()),
        ("pending", pa.int64()),
        ("oldest_ms", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class StateFigures:
    """One state partition.

    Args:
        state_partition: its number.
        pages: rows of the state.
        page_bytes: what they take up, before Spark's compression.
        pending: halves without a verdict in them.
        oldest_ms: store time of the oldest of them, None where nothing is pending.
    """

    state_partition: int
    pages: int
    page_bytes: int
    pending: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far one partition of a topic is read.

    Args:
        topic: the topic.
        partition: number of its partition.
        committed: offset after the last record of the last committed batch, None before the first.
        planned: the same of the last planned batch.
        end: where the topic ends for a reader of committed records, None where it was not asked.
    """

    topic: str
    partition: int
    committed: int | None
    planned: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Records from the committed offset to the end; None where either is not known."""
        if self.end is None or self.committed is None:
            return None
        return max(0, self.end - self.committed)


def read_state_figures(folder: CheckpointFolder, state_partitions: int) -> list[StateFigures]:
    """Return the figures of the last committed batch's state; pages are unpacked where they lie."""
    spark = folder.spark
    wake_state_readers(spark)
    state = spark.read.format("statestore").load(folder.path)
    pages = state.selectExpr("partition_id", "value.groupState.page as page")
    rows = pages.where("page is not null").mapInArrow(_figures, _SCHEMA).collect()
    return [
        _merged(number, [row.asDict() for row in rows if row.state_partition == number])
        for number in range(state_partitions)
    ]


def read_positions(
    committed: Offsets, planned: Offsets, ends: Mapping[tuple[str, int], int]
) -> list[ReadPosition]:
    """Return how far every partition is read, by topic and number.

    Args:
        committed: ends of the last committed batch.
        planned: ends of the last planned batch.
        ends: of the topics, by topic and partition.
    """
    places = {
        (topic, number)
        for offsets in (committed, planned)
        for topic, numbers in offsets.items()
        for number in numbers
    }
    return [
        ReadPosition(
            topic,
            number,
            committed.get(topic, {}).get(number),
            planned.get(topic, {}).get(number),
            ends.get((topic, number)),
        )
        for topic, number in sorted(places | ends.keys())
    ]


def _figures(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        # A task reads one state partition.
        rows = [_figures_of(row) for row in batch.to_pylist()]
        if rows:
            merged = _merged(rows[0]["state_partition"], rows)
            yield pa.RecordBatch.from_pylist([asdict(merged)], schema=_ARROW)


def _figures_of(row: Mapping[str, Any]) -> dict[str, Any]:
    page = Page.unpack(row["page"])
    return {
        "state_partition": row["partition_id"],
        "pages": 1,
        "page_bytes": len(row["page"]),
        "pending": page.pending,
        "oldest_ms": page.oldest_ms,
    }


def _merged(number: int, rows: Sequence[Mapping[str, Any]]) -> StateFigures:
    sums = [sum(row[name] for row in rows) for name in ("pages", "page_bytes", "pending")]
    oldest = min((row["oldest_ms"] for row in rows if row["pending"]), default=None)
    return StateFigures(number, sums[0], sums[1], sums[2], oldest)
