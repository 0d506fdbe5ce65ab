"""What a sink task reports to the driver about its state partition and batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkback.state import Counter as StateCounter
from checkback.state import Outcome
from checkback.state.formats.outcome import FINISH_NUMBERS

REFUSED_GROUPS_MAX: Final = 10
"""A report names at most this many: a hostile sender may invent as many groups as he likes."""

COUNTERS: Final = (
    "counts", "asked_groups", "undelivered_groups", "refused", "discarded", "refused_groups",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PageStatus:
    """What is pending in a page after a batch.

    Args:
        oldest_ms: store time of the oldest of them, -1 where there is none.
        overdue: how many of the pending halves are due for a check request and wait for their turn.
        wake_at_ms: the first batch after this time calls the page; None if it keeps nothing.
        state_bytes: size of the page's row in the state, 0 where it has none.
    """

    partition: int
    page: int
    pending: int
    oldest_ms: int
    overdue: int = 0
    wake_at_ms: int | None = None
    state_bytes: int = 0


@dataclass(slots=True)
class BatchReport:
    """Counts of one state partition and batch.

    Args:
        counts: by the lower-case names of state.Counter, and the sink's own: finals,
            finals_refused, halves_lost, native_fallbacks.
        refused: by the name of the reason, how many records were written to the refused topic.
        discarded: by why (check_limit, expired), how many halves went to the discarded topic.
        finished: how many halves got a commit or rollback at which age, as Outcome has it.
        skipped: whether an earlier try of the batch had already written everything.
        refused_groups: the producer groups that most refused records name, with the number of
            records.
    """

    state_partition: int
    counts: Counter[str] = field(default_factory=Counter)
    asked_groups: Counter[str] = field(default_factory=Counter)
    undelivered_groups: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)
    finished: list[int] = field(default_factory=lambda: [0] * FINISH_NUMBERS)
    pages: list[PageStatus] = field(default_factory=list)
    skipped: bool = False
    refused_groups: Counter[str] = field(default_factory=Counter)

    def drop_small_groups(self) -> None:
        """Drop the groups with the fewest refused records."""
        self.refused_groups = Counter(dict(self.refused_groups.most_common(REFUSED_GROUPS_MAX)))


def report_of(state_partition: int, outcomes: Sequence[Outcome]) -> BatchReport:
    """Return the report of what the pages decided; the sink adds to it what it did."""
    report = BatchReport(state_partition)
    for outcome in outcomes:
        _add_counters(report.counts, outcome)
        if outcome.finished is not None:
            report.finished = added(report.finished, outcome.finished.tolist())
        report.pages.append(
            PageStatus(
                int(outcome.partition),
                int(outcome.page),
                int(outcome.pending),
                int(outcome.oldest_ms),
                int(outcome.counters[StateCounter.CHECKS_DEFERRED]),
                None if outcome.wake_at_ms is None else int(outcome.wake_at_ms),
                int(outcome.state_bytes),
            )
        )
    return report


def summed(reports: Iterable[BatchReport]) -> BatchReport:
    """Return the reports of all tasks of a batch as one; its number is -1."""
    total = BatchReport(-1)
    for report in reports:
        for name in COUNTERS:
            getattr(total, name).update(getattr(report, name))
        total.finished = added(total.finished, report.finished)
        total.pages += report.pages
        total.skipped |= report.skipped
    return total


def added(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Return the sums of two rows of numbers."""
    return [one + other for one, other in zip(left, right, strict=True)]


def _add_counters(counts: Counter[str], outcome: Outcome) -> None:
    for counter in StateCounter:
        number = int(outcome.counters[counter])
        if number:
            counts[counter.name.lower()] += number
