"""Computes rates from a query's batches, after leaving out the warm-up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkback.bench.event_log import MeasuredBatch
from checkback.protocol.errors import UsageError

SCRAP: Final = 0.1
"""A last batch smaller than this share of the median is a remainder and does not count."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The part of a run that is measured.

    Args:
        batches: the batches that began after the warm-up, without the remainder at the end.
    """

    batches: Sequence[MeasuredBatch]

    @property
    def rows(self) -> int:
        """Number of records read."""
        return sum(batch.rows for batch in self.batches)

    @property
    def from_ms(self) -> int:
        """When the first batch began."""
        return self.batches[0].started_ms

    @property
    def to_ms(self) -> int:
        """When the last batch ended."""
        return self.batches[-1].ended_ms


def steady_part(batches: Sequence[MeasuredBatch], warm_up: float) -> Steady:
    """Return the part of a run after its warm-up.

    Args:
        batches: all batches of the run, ascending, with rows in more than one of them.
        warm_up: share of the records that belongs to the warm-up, at least one batch.

    Raises:
        UsageError: there are too few batches to leave one out.
    """
    full = [batch for batch in batches if batch.rows]
    least = SCRAP * statistics.median(batch.rows for batch in full) if full else 0.0
    while len(full) > 1 and full[-1].rows < least:
        full.pop()
    total, read = sum(batch.rows for batch in full), 0
    for number, batch in enumerate(full):
        read += batch.rows
        # A batch may be a few records below its limit, because Spark divides the limit among
        # partitions. That must not make the warm-up one batch longer than in the comparison's run.
        if read >= warm_up * total - least:
            counted = full[number + 1 :]
            break
    else:
        counted = []
    if not counted:
        raise UsageError(
            f"{len(full)} full batches are too few to measure.",
            remedy="Let a batch read less (--batch-events), or send more (--transactions).",
        )
    return Steady(counted)


def median_ms(batches: Sequence[MeasuredBatch]) -> float:
    """Return the median duration of the batches.

    Raises:
        ValueError: there is no batch.
    """
    if not batches:
        raise ValueError("no batch to measure")
    return float(statistics.median(batch.took_ms for batch in batches))


def within(batches: Sequence[MeasuredBatch], from_ms: float, to_ms: float) -> list[MeasuredBatch]:
    """Return the batches that are completely within a span of time."""
    return [batch for batch in batches if batch.started_ms >= from_ms and batch.ended_ms <= to_ms]


def touching(batches: Sequence[MeasuredBatch], from_ms: float, to_ms: float) -> list[MeasuredBatch]:
    """Return the batches that are at least partly within a span of time."""
    return [batch for batch in batches if batch.started_ms < to_ms and batch.ended_ms > from_ms]
