"""Cuts a batch into parts, each small enough for one Kafka transaction.

The rows of all outcomes have one order: by half partition and page, within a page by half offset.
This order follows from the outcomes alone. So a later try has the same order, however it divides
the rows into parts, and the number of written rows tells it where to continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.errors import CheckpointError
from checkback.state import Outcome


class BatchPart(NamedTuple):
    """The rows of one transaction.

    Args:
        rows_done: how many rows of the batch are written after it, together with all parts before.
    """

    outcomes: Sequence[Outcome]
    rows_done: int
    is_last: bool


def parts_of(outcomes: Sequence[Outcome], rows_done: int, rows_max: int) -> Iterator[BatchPart]:
    """Yield the parts that are left of one state partition's rows of a batch, at least one.

    Raises:
        CheckpointError: the count of written rows leaves none for the last part.
    """
    rows = sum(len(one.action) for one in outcomes)
    if not rows_done and rows <= rows_max:
        yield BatchPart(outcomes, rows, is_last=True)
        return
    if rows_done >= rows:
        raise CheckpointError(
            f"The marker says that {rows_done} rows of the batch are written, but the batch has "
            f"{rows}.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
        )
    for first in range(rows_done, rows, rows_max):
        end = min(rows, first + rows_max)
        yield BatchPart(list(_between(outcomes, first, end)), end, is_last=end == rows)


def _between(outcomes: Sequence[Outcome], first: int, end: int) -> Iterator[Outcome]:
    at = 0
    for outcome in sorted(outcomes, key=lambda one: (one.partition, one.page)):
        size = len(outcome.action)
        low, high = max(0, first - at), min(size, end - at)
        at += size
        if low < high:
            in_order = np.argsort(outcome.offset, kind="stable")
            yield only_rows(outcome, in_order[low:high])


def only_rows(outcome: Outcome, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Outcome:
    """Return the outcome with these rows only; its counters stay."""
    return replace(
        outcome,
        action=outcome.action[rows],
        offset=outcome.offset[rows],
        detail=outcome.detail[rows],
        source_offset=outcome.source_offset[rows],
        identity=None if outcome.identity is None else outcome.identity[rows],
        identity_rest=None if outcome.identity_rest is None else outcome.identity_rest[rows],
    )
