"""Reads the pending halves from the state in a checkpoint, also while the pipeline runs.

It reads the state of the last committed batch. The state holds no group names, only each half's
identity, a hash. Part of that hash depends on the group alone. So a reader can filter halves by
group before it looks them up, and needs one look-up per group to learn the group's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkback.checkpoints.state_rows import StoredPage
from checkback.state import Page
from checkback.state.identity import group_part, identity_words

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
_OLDEST_FIRST: Final = [
    ("store_time_ms", "ascending"),
    ("partition", "ascending"),
    ("offset", "ascending"),
]
_ROWS_AT_ONCE: Final = 1_000_000
"""The halves that are held before the oldest are chosen from them."""


@dataclass(frozen=True, slots=True)
class PendingHalf:
    """A half without a verdict.

    Args:
        partition: half partition.
        offset: half offset.
        store_time_ms: the broker's time of the half.
        deadline_ms: the first batch after this time asks about the half or discards it.
        check_times: how many check requests count so far.
    """

    partition: int
    offset: int
    store_time_ms: int
    deadline_ms: int
    check_times: int


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """What is pending for one producer group; one of its halves stands for the group.

    Args:
        pending: number of pending halves.
        oldest_ms: the broker's time of the oldest half.
        partition: half partition of one of them.
        offset: half offset of the same one.
    """

    pending: int
    oldest_ms: int
    partition: int
    offset: int


def oldest_pending(
    pages: Iterable[StoredPage],
    *,
    most: int,
    stored_until_ms: int | None = None,
    group: str | None = None,
) -> list[PendingHalf]:
    """Return the oldest pending halves, oldest first.

    Args:
        pages: the state.
        most: return at most this many.
        stored_until_ms: return only halves stored at this time or before.
        group: return only halves whose group has this group's hash; one in 65,536 other groups has
            the same hash, so check the half itself.
    """
    chosen = _ARROW_HALVES.empty_table()
    tag = None if group is None else group_tag(group)
    for rows in _tables(pages, stored_until_ms):
        if tag is not None:
            rows = rows.filter(pc.field("tag") == tag)
        chosen = pa.concat_tables([chosen, rows]).sort_by(_OLDEST_FIRST).slice(0, most)
    return [PendingHalf(**row) for row in chosen.drop_columns(["tag"]).to_pylist()]


def pending_groups(pages: Iterable[StoredPage]) -> list[PendingGroup]:
    """Return what is pending per producer group, however much it is."""
    found: dict[int, PendingGroup] = {}
    for rows in _tables(pages, None):
        for tag in pc.unique(rows["tag"]).to_pylist():
            own = rows.filter(pc.field("tag") == tag).sort_by(_OLDEST_FIRST)
            first = own.slice(0, 1).to_pylist()[0]
            place = (first["store_time_ms"], first["partition"], first["offset"])
            found[tag] = _together(found.get(tag), PendingGroup(len(own), *place))
    return list(found.values())


def group_tag(group: str) -> int:
    """Return the part of its halves' identities that depends on a group."""
    word, _ = identity_words(group.encode(), b"")
    return int(group_part(np.array([word], np.int64))[0])


def _together(one: PendingGroup | None, other: PendingGroup) -> PendingGroup:
    if one is None:
        return other
    oldest = one if one.oldest_ms <= other.oldest_ms else other
    return PendingGroup(
        one.pending + other.pending, oldest.oldest_ms, oldest.partition, oldest.offset
    )


def _tables(pages: Iterable[StoredPage], stored_until_ms: int | None) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    held = 0
    for page in pages:
        batches.append(halves_of(Page.unpack(page.blob), stored_until_ms))
        held += len(batches[-1])
        if held >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(batches)
            batches, held = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def halves_of(page: Page, stored_until_ms: int | None) -> pa.RecordBatch:
    """Return a page's pending halves as rows.

    Args:
        page: the page.
        stored_until_ms: return only halves stored at this time or before; None for all.

    Returns:
        The columns of PendingHalf and tag: the part of the identity that depends on the group.
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
        group_part(halves.identity).astype(np.int32),
    ]
    return pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=_ARROW_HALVES)
