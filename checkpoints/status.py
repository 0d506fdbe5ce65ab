"""What is pending, read from the state in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkback.checkpoints.folder import CheckpointFolder
from checkback.sinks.report import PageStatus
from checkback.state import Page

STATUS_SCHEMA = "partition int, page long, pending long, oldest_ms long"
_ARROW_STATUS = pa.schema(
    [
        ("partition", pa.int32()),
        ("page", pa.int64()),
        ("pending", pa.int64()),
        ("oldest_ms", pa.int64()),
    ]
)


def read_page_statuses(folder: CheckpointFolder) -> list[PageStatus]:
    """Return the status of every page in the last committed batch's state.

    Pages are unpacked where they are read: only their statuses travel.
    """
    blobs = read_page_blobs(folder)
    if blobs is None:
        return []
    rows = blobs.mapInArrow(_statuses, STATUS_SCHEMA).collect()
    return [PageStatus(row.partition, row.page, row.pending, row.oldest_ms) for row in rows]


def read_page_blobs(folder: CheckpointFolder) -> DataFrame | None:
    """Return every page of the last committed batch's state, still packed.

    Returns:
        blob binary; None where no batch was committed.
    """
    if folder.last_batch("commits") is None:
        return None
    spark = folder.spark
    wake_state_readers(spark)
    state = spark.read.format("statestore").load(folder.path)
    blobs = state.select("value.groupState.page").toDF("blob")
    return blobs.where("blob is not null")


def wake_state_readers(spark: SparkSession) -> None:
    """Make a fresh session able to read state: it has no coordinator until the manager is asked."""
    java: Any = spark._jsparkSession  # noqa: SLF001 - no public way
    java.streams().active()


def _statuses(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = []
        for row in batch.to_pylist():
            page = Page.unpack(row["blob"])
            found.append(
                {
                    "partition": page.partition,
                    "page": page.page,
                    "pending": page.pending,
                    "oldest_ms": page.oldest_ms,
                }
            )
        yield pa.RecordBatch.from_pylist(found, schema=_ARROW_STATUS)
