"""What a sink task tells the driver about its state partition and batch; travels as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from checkback.state import Counter as StateCounter
from checkback.state import Outcome


@dataclass(frozen=True, slots=True)
class PageStatus:
    """What is pending in a page after a batch.

    Args:
        partition: half partition.
        page: number of the page.
        pending: halves without a verdict.
        oldest_ms: store time of the oldest of them, -1 where there is none.
        overdue: of those pending, how many are to be asked and wait for their turn.
    """

    partition: int
    page: int
    pending: int
    oldest_ms: int
    overdue: int = 0


@dataclass(slots=True)
class BatchReport:
    """Counts of one state partition and batch.

    Args:
        state_partition: number of the state partition.
        counts: by the lower-case names of state.Counter, and the sink's own: finals,
            finals_refused, halves_lost.
        asked_groups: groups that check requests were sent to, with how many.
        undelivered_groups: groups whose check topic does not exist, with how many requests.
        pages: the status of every page that the batch touched.
        skipped: whether an earlier try of the batch had already written everything.
    """

    state_partition: int
    counts: Counter[str] = field(default_factory=Counter)
    asked_groups: Counter[str] = field(default_factory=Counter)
    undelivered_groups: Counter[str] = field(default_factory=Counter)
    pages: list[PageStatus] = field(default_factory=list)
    skipped: bool = False

    def to_json(self) -> str:
        """Return the report as one line."""
        # asdict would build a Counter from pairs, and so count the pairs (CPython before 3.12).
        return json.dumps(
            {
                "state_partition": self.state_partition,
                "counts": dict(self.counts),
                "asked_groups": dict(self.asked_groups),
                "undelivered_groups": dict(self.undelivered_groups),
                "pages": [asdict(page) for page in self.pages],
                "skipped": self.skipped,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> BatchReport:
        """Read a report."""
        raw = json.loads(text)
        return cls(
            raw["state_partition"],
            Counter(raw["counts"]),
            Counter(raw["asked_groups"]),
            Counter(raw["undelivered_groups"]),
            [PageStatus(**page) for page in raw["pages"]],
            raw["skipped"],
        )


def report_of(state_partition: int, outcomes: Sequence[Outcome]) -> BatchReport:
    """Return the report of what the pages decided; what the sink did is added by the sink."""
    report = BatchReport(state_partition)
    for outcome in outcomes:
        _add_counters(report.counts, outcome)
        report.pages.append(
            PageStatus(
                int(outcome.partition),
                int(outcome.page),
                int(outcome.pending),
                int(outcome.oldest_ms),
                int(outcome.counters[StateCounter.CHECKS_DEFERRED]),
            )
        )
    return report


def merged_counts(reports: Iterable[BatchReport]) -> Counter[str]:
    """Return the counts of all reports together."""
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.counts)
    return total


def _add_counters(counts: Counter[str], outcome: Outcome) -> None:
    for counter in StateCounter:
        number = int(outcome.counters[counter])
        if number:
            counts[counter.name.lower()] += number
