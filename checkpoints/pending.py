"""Which halves are pending, read from the state in a checkpoint, also while the pipeline runs.

What is read is the last committed batch. Who may answer for a half is not in the state, only a
hash; its top 16 bits are the group's own, so halves can be chosen by group before they are looked
up, and looked up once per group to be named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from checkback.checkpoints.folder import CheckpointFolder
from checkback.checkpoints.status import read_page_blobs
from checkback.state import Page

_GROUP_BITS: Final = 16
_ARROW_HALVES: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("store_time_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
        ("check_times", pa.int64()),
        ("tag", pa.int32()),
    ]
)
_HALVES_SCHEMA: Final = (
    "partition int, offset long, store_time_ms long, deadline_ms long, check_times long, tag int"
)


@dataclass(frozen=True, slots=True)
class PendingHalf:
    """A half without a verdict.

    Args:
        partition: half partition.
        offset: half offset.
        store_time_ms: the broker's time of the half.
        deadline_ms: asked back, or discarded, in the first batch after it.
        check_times: check requests that count so far.
    """

    partition: int
    offset: int
    store_time_ms: int
    deadline_ms: int
    check_times: int


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """What is pending for one producer group, which is known by one of its halves.

    Args:
        pending: how many halves.
        oldest_ms: the broker's time of the oldest.
        partition: half partition of one of them.
        offset: half offset of the same one.
    """

    pending: int
    oldest_ms: int
    partition: int
    offset: int


def read_pending_halves(
    folder: CheckpointFolder,
    *,
    most: int,
    stored_until_ms: int | None = None,
    group: str | None = None,
) -> list[PendingHalf]:
    """Return the oldest pending halves, oldest first.

    Args:
        folder: the checkpoint.
        most: no more than so many.
        stored_until_ms: only those stored at that time or before.
        group: only those whose group has the hash of this one; one in 65,536 other groups has it
            too, so look at the half itself.
    """
    rows = _pending_rows(folder, stored_until_ms)
    if rows is None:
        return []
    if group is not None:
        rows = rows.where(f.col("tag") == _tag_of(group))
    chosen = rows.drop("tag").orderBy("store_time_ms", "partition", "offset").limit(most)
    return [PendingHalf(**row.asDict()) for row in chosen.collect()]


def read_pending_groups(folder: CheckpointFolder) -> list[PendingGroup]:
    """Return what is pending per producer group, however much it is."""
    rows = _pending_rows(folder, None)
    if rows is None:
        return []
    example = f.min(f.struct("store_time_ms", "partition", "offset")).alias("oldest")
    found = rows.groupBy("tag").agg(f.count("*").alias("pending"), example).collect()
    return [
        PendingGroup(row.pending, row.oldest.store_time_ms, row.oldest.partition, row.oldest.offset)
        for row in found
    ]


def _pending_rows(folder: CheckpointFolder, stored_until_ms: int | None) -> DataFrame | None:
    blobs = read_page_blobs(folder)
    if blobs is None:
        return None

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield halves_of(Page.unpack(row["blob"]), stored_until_ms)

    return blobs.select("blob").mapInArrow(unpack, _HALVES_SCHEMA)


def halves_of(page: Page, stored_until_ms: int | None) -> pa.RecordBatch:
    """Return a page's pending halves as rows.

    Args:
        page: the page.
        stored_until_ms: only those stored at that time or before; None for all.

    Returns:
        partition, offset, store_time_ms, deadline_ms, check_times as of PendingHalf, and tag: the
        16 bits that are the hash of the group.
    """
    halves = page.halves
    if stored_until_ms is not None:
        halves = halves.take(halves.store_time_ms <= stored_until_ms)
    columns: list[Any] = [
        np.full(len(halves), page.partition, np.int32),
        halves.index + page.first_offset,
        halves.store_time_ms,
        halves.deadline_ms,
        halves.check_times,
        (halves.identity >> (64 - _GROUP_BITS)).astype(np.int32),
    ]
    return pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=_ARROW_HALVES)


def _tag_of(group: str) -> Column:
    """Return what `streaming.decode` makes the top bits of a half's identity for that group."""
    top = f.shiftleft(f.xxhash64(f.lit(group)), 64 - _GROUP_BITS)
    return f.shiftright(top, 64 - _GROUP_BITS).cast("int")
