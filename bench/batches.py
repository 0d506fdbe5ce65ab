"""From a query's batches to rates: which of them count, and how fast they were."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkback.bench.event_log import Batch

SCRAP: Final = 0.1
"""A last batch smaller than this share of the median is a remainder, not a measurement."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The part of a run that counts.

    Args:
        batches: those that began after the warm-up, the remainder at the end left out.
    """

    batches: Sequence[Batch]

    @property
    def rows(self) -> int:
        """Records read."""
        return sum(batch.rows for batch in self.batches)

    @property
    def from_ms(self) -> int:
        """When the first of them began."""
        return self.batches[0].started_ms

    @property
    def to_ms(self) -> int:
        """When the last of them ended."""
        return self.batches[-1].ended_ms

    @property
    def rows_per_s(self) -> float:
        """Records read per second."""
        return self.rows / ((self.to_ms - self.from_ms) / 1_000)


def steady_part(batches: Sequence[Batch], warm_up: float) -> Steady:
    """Return the part of a run after its warm-up.

    Args:
        batches: of the whole run, ascending, with rows in more than one of them.
        warm_up: share of the records that is read before it is measured; at least one batch is.

    Raises:
        ValueError: too few batches to leave one out.
    """
    full = [batch for batch in batches if batch.rows]
    least = SCRAP * statistics.median(batch.rows for batch in full) if full else 0.0
    while len(full) > 1 and full[-1].rows < least:
        full.pop()
    total, read = sum(batch.rows for batch in full), 0
    for number, batch in enumerate(full):
        read += batch.rows
        # A few records short of its limit, as Spark shares one out among partitions, a batch must
        # not draw the next one into the warm-up: that of the comparison is not.
        if read >= warm_up * total - least:
            counted = full[number + 1 :]
            break
    else:
        counted = []
    if not counted:
        raise ValueError(f"{len(full)} batches are too few to measure")
    return Steady(counted)


def median_ms(batches: Sequence[Batch]) -> float:
    """Return the median of how long they took.

    Raises:
        ValueError: there is none.
    """
    if not batches:
        raise ValueError("no batch to measure")
    return float(statistics.median(batch.took_ms for batch in batches))


def within(batches: Sequence[Batch], from_ms: float, to_ms: float) -> list[Batch]:
    """Return the batches that lay whole within a span of time."""
    return [batch for batch in batches if batch.started_ms >= from_ms and batch.ended_ms <= to_ms]


def touching(batches: Sequence[Batch], from_ms: float, to_ms: float) -> list[Batch]:
    """Return the batches of which a part lay within a span of time."""
    return [batch for batch in batches if batch.started_ms < to_ms and batch.ended_ms > from_ms]
