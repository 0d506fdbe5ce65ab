"""Reads pages and their statuses from the state in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from checkback.checkpoints.spark_internals import wake_state_readers
from checkback.checkpoints.store import CheckpointStore
from checkback.sinks.report import PageStatus
from checkback.state import Page

STATUS_SCHEMA = (
    "partition int, page long, pending long, oldest_ms long, wake_at_ms long, state_bytes long"
)
_ARROW_STATUS = pa.schema(
    [
        ("partition", pa.int32()),
        ("page", pa.int64()),
        ("pending", pa.int64()),
        ("oldest_ms", pa.int64()),
        ("wake_at_ms", pa.int64()),
        ("state_bytes", pa.int64()),
    ]
)


def read_page_statuses(spark: SparkSession, store: CheckpointStore) -> list[PageStatus]:
    """Return the status of every page in the last committed batch's state.

    Each task unpacks the pages that it reads, so only statuses travel to the driver.
    """
    blobs = read_page_blobs(spark, store)
    if blobs is None:
        return []
    rows = blobs.mapInArrow(_statuses, STATUS_SCHEMA).collect()
    return [
        PageStatus(
            row.partition,
            row.page,
            row.pending,
            row.oldest_ms,
            wake_at_ms=row.wake_at_ms,
            state_bytes=row.state_bytes,
        )
        for row in rows
    ]


def read_page_blobs(spark: SparkSession, store: CheckpointStore) -> DataFrame | None:
    """Return every page of the last committed batch's state, still packed.

    Returns:
        blob binary, wake_at_ms long; None if no batch was committed.
    """
    if store.last_batch("commits") is None:
        return None
    wake_state_readers(spark)
    state = spark.read.format("statestore").load(store.path)
    blobs = state.select("value.groupState.page", "value.timeoutTimestamp").toDF(
        "blob", "wake_at_ms"
    )
    return blobs.where("blob is not null")


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
                    "wake_at_ms": row["wake_at_ms"],
                    "state_bytes": len(row["blob"]),
                }
            )
        yield pa.RecordBatch.from_pylist(found, schema=_ARROW_STATUS)
