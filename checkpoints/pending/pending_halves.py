"""Reads the pending halves from the state in a checkpoint, also while the pipeline runs.

It reads the state of the last committed batch. The state holds no group names, only each half's
identity, a hash. Part of that hash depends on the group alone. So a reader can filter halves by
group before it looks them up, and needs one look-up per group to learn the group's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from checkback.checkpoints.spark_files.state_rows import StoredPage
from checkback.state import Page
from checkback.state.formats.identity import group_part, identity_words

# Not Arrow: its arrays load pandas, which takes longer than all else that `pending` does.
_ROW: Final = np.dtype(
    [
        ("partition", np.int32),
        ("offset", np.int64),
        ("store_time_ms", np.int64),
        ("deadline_ms", np.int64),
        ("check_times", np.int64),
        ("tag", np.int32),
    ]
)
Rows = npt.NDArray[np.void]
"""Pending halves: the columns of PendingHalf, and the part of the identity that depends on the
group."""
SORTS: Final = ("age", "newest", "checks")
"""The orders of a table's page."""


@dataclass(frozen=True, slots=True)
class PendingHalf:
    """A half without a verdict.

    Args:
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
    """The pending halves of one producer group, counted, with the place of the oldest.

    Args:
        partition: half partition of the oldest.
        asked_again: number of pending halves that more than one check request counts for.
    """

    pending: int
    oldest_ms: int
    partition: int
    offset: int
    asked_again: int


@dataclass(frozen=True, slots=True)
class PendingTable:
    """Every pending half of one batch, in memory: 36 bytes each.

    Args:
        groups: what is pending by producer group, by the group's hash.
    """

    rows: Rows
    groups: Mapping[int, PendingGroup]

    @classmethod
    def of(cls, pages: Iterable[StoredPage]) -> PendingTable:
        """Return the table of a state's pages."""
        parts = [halves_of(Page.unpack(page.blob)) for page in pages]
        rows = np.concatenate([np.empty(0, _ROW), *parts])
        rows = rows[np.lexsort((rows["offset"], rows["partition"], rows["store_time_ms"]))]
        return cls(rows, _groups_of(rows))

    def page(
        self,
        sort: str,
        first: int,
        most: int,
        *,
        group: str | None = None,
        stored_until_ms: int | None = None,
    ) -> tuple[list[PendingHalf], int]:
        """Return some of the chosen halves in an order, and how many are chosen in all.

        Args:
            sort: one of SORTS.
            group: choose only halves with this group's hash; one in 65,536 other groups has the
                same hash, so check the half itself.
        """
        rows = self.rows
        if stored_until_ms is not None:
            rows = rows[: np.searchsorted(rows["store_time_ms"], stored_until_ms, "right")]
        if group is not None:
            rows = rows[rows["tag"] == group_tag(group)]
        if sort == "newest":
            shown = rows[::-1][first : first + most]
        elif sort == "checks":
            order = np.argsort(-rows["check_times"], kind="stable")
            shown = rows[order[first : first + most]]
        else:
            shown = rows[first : first + most]
        return [PendingHalf(*row[:-1]) for row in shown.tolist()], len(rows)


def _groups_of(rows: Rows) -> dict[int, PendingGroup]:
    """Return what is pending by the group's hash, from rows that begin with the oldest."""
    tags, first, inverse, counts = np.unique(
        rows["tag"], return_index=True, return_inverse=True, return_counts=True
    )
    asked_again = np.bincount(inverse, rows["check_times"] > 1, len(tags))
    oldest = rows[first]
    columns = [
        column.astype(np.int64).tolist()
        for column in (
            counts, oldest["store_time_ms"], oldest["partition"], oldest["offset"], asked_again,
        )
    ]  # fmt: skip
    return {
        tag: PendingGroup(*facts)
        for tag, facts in zip(tags.tolist(), zip(*columns, strict=True), strict=True)
    }


def group_tag(group: str) -> int:
    """Return the part of its halves' identities that depends on a group."""
    word, _ = identity_words(group.encode(), b"")
    return int(group_part(np.array([word], np.int64))[0])


def halves_of(page: Page) -> Rows:
    """Return a page's pending halves as rows."""
    halves = page.halves
    rows = np.empty(len(halves), _ROW)
    rows["partition"] = page.partition
    rows["offset"] = halves.index + page.first_offset
    rows["store_time_ms"] = halves.store_time_ms
    rows["deadline_ms"] = halves.deadline_ms
    rows["check_times"] = halves.check_times
    rows["tag"] = group_part(halves.identity).astype(np.int32)
    return rows
