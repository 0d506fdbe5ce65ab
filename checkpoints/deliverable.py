"""Finds the pending halves whose producers may still deliver them directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from checkback.checkpoints.status import read_page_blobs
from checkback.checkpoints.store import CheckpointStore
from checkback.state import Page, may_be_delivered

_SCHEMA = "partition int, offset long, number long"
_ARROW = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("number", pa.int64())])


@dataclass(frozen=True, slots=True)
class Deliverable:
    """The halves of one page whose sessions are not closed.

    Args:
        partition: half partition.
        offset: of the first of them.
        number: how many there are.
    """

    partition: int
    offset: int
    number: int


def read_deliverable(spark: SparkSession, store: CheckpointStore) -> list[Deliverable]:
    """Return what is there in the last committed batch's state, by page."""
    blobs = read_page_blobs(spark, store)
    if blobs is None:
        return []
    return [
        Deliverable(*row)
        for row in blobs.mapInArrow(deliverable_rows, _SCHEMA).sort("partition", "offset").collect()
    ]


def deliverable_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return, for each page of packed ones that has such halves, how many and where they begin."""
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            page = Page.unpack(row["blob"])
            own = page.halves.index[may_be_delivered(page.halves)].tolist()
            if own:
                first = page.first_offset + own[0]
                rows.append({"partition": page.partition, "offset": first, "number": len(own)})
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)
