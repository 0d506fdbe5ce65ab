"""How the job is doing: what is pending, what happened since the last line, one line of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from checkback.sinks.report import BatchReport, PageStatus, merged_counts

SHOWN_COUNTS: Final = ("halves", "finals", "rollbacks", "checks", "discards", "refusals")
EVENT_COUNTS: Final = (
    "halves", "repeated_halves", "commits", "rollbacks", "unknown_ops", "repeated_ops",
    "ops_waiting", "refusals",
)  # fmt: skip
"""What together makes up the records read: each is counted as one of these."""


@dataclass(slots=True)
class PendingIndex:
    """Pending halves by page: exact, because every page a batch touches reports its status."""

    _pages: dict[tuple[int, int], PageStatus] = field(default_factory=dict)
    _reported: set[tuple[int, int]] | None = field(default_factory=set)

    def complete(self, statuses: Iterable[PageStatus]) -> None:
        """Take in, once, what the checkpoint held; what a batch reported meanwhile is younger."""
        reported, self._reported = self._reported or set(), None
        self.update(
            status for status in statuses if (status.partition, status.page) not in reported
        )

    def update(self, statuses: Iterable[PageStatus]) -> None:
        """Take in the statuses that a batch reported."""
        for status in statuses:
            key = (status.partition, status.page)
            if self._reported is not None:
                self._reported.add(key)
            if status.pending:
                self._pages[key] = status
            else:
                self._pages.pop(key, None)

    @property
    def pending(self) -> int:
        """Halves without a verdict."""
        return sum(status.pending for status in self._pages.values())

    @property
    def overdue(self) -> int:
        """Halves that are to be asked and wait for their turn."""
        return sum(status.overdue for status in self._pages.values())

    @property
    def oldest_ms(self) -> int | None:
        """Store time of the oldest of them, None where nothing is pending."""
        return min((status.oldest_ms for status in self._pages.values()), default=None)


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """What one line says.

    Args:
        time_ms: when.
        batch_id: the last batch that was written, None before the first.
        batches: batches since the last line.
        batch_ms: how long the last batch took, None before the first.
        events_per_s: halves and ops read per second since the last line.
        counts: what happened since the last line, by name.
        pending: halves without a verdict.
        oldest_pending_ms: age of the oldest of them, None where nothing is pending.
        check_backlog: halves that are due and wait for their turn (checks_per_batch_max).
        undelivered_groups: groups without a check topic, with how many requests found none.
        groups_without_members: groups that were asked since the last line, with nobody to answer.
    """

    time_ms: int
    batch_id: int | None
    batches: int
    batch_ms: int | None
    events_per_s: float
    counts: dict[str, int]
    pending: int
    oldest_pending_ms: int | None
    check_backlog: int
    undelivered_groups: dict[str, int]
    groups_without_members: list[str]


@dataclass(slots=True)
class Progress:
    """Collects what batches report; read from another thread than the one that writes.

    Args:
        index: what is pending.
    """

    index: PendingIndex = field(default_factory=PendingIndex)
    totals: Counter[str] = field(default_factory=Counter)
    _since: Counter[str] = field(default_factory=Counter)
    _undelivered: Counter[str] = field(default_factory=Counter)
    _asked: set[str] = field(default_factory=set)
    _batches: int = 0
    _batch_id: int | None = None
    _line_ms: int | None = None
    _lock: Lock = field(default_factory=Lock)

    def add(self, batch_id: int, reports: list[BatchReport]) -> None:
        """Take in what the tasks of a batch reported."""
        counts = merged_counts(reports)
        with self._lock:
            self._batch_id = batch_id
            self._batches += 1
            self._since.update(counts)
            self.totals.update(counts)
            for report in reports:
                self.index.update(report.pages)
                self._undelivered.update(report.undelivered_groups)
                self._asked.update(report.asked_groups)

    def complete(self, statuses: Iterable[PageStatus]) -> None:
        """Take in what the checkpoint held when the job began."""
        with self._lock:
            self.index.complete(statuses)

    def take_asked_groups(self) -> set[str]:
        """Return the groups that were asked since the last call."""
        with self._lock:
            asked, self._asked = self._asked, set()
        return asked

    @property
    def last_batch(self) -> int | None:
        """The last batch that was written, None before the first."""
        return self._batch_id

    def line(
        self, now_ms: int, batch_ms: int | None, groups_without_members: Sequence[str] = ()
    ) -> ProgressLine:
        """Return the line for now and begin the next one."""
        with self._lock:
            elapsed_s = max(1, now_ms - (self._line_ms or now_ms)) / 1_000
            counts, undelivered = dict(self._since), dict(self._undelivered)
            batches, oldest_ms = self._batches, self.index.oldest_ms
            self._since.clear()
            self._undelivered.clear()
            self._batches = 0
            self._line_ms = now_ms
            events = sum(counts.get(name, 0) for name in EVENT_COUNTS)
            return ProgressLine(
                now_ms,
                self._batch_id,
                batches,
                batch_ms,
                events / elapsed_s if elapsed_s > 0.01 else 0.0,
                counts,
                self.index.pending,
                None if oldest_ms is None else max(0, now_ms - oldest_ms),
                self.index.overdue,
                undelivered,
                list(groups_without_members),
            )


def line_text(event: str, facts: Mapping[str, Any]) -> str:
    """Return what a terminal shows of an event: started, progress (a ProgressLine), stopped."""
    if event == "started":
        return (
            f"started {facts['application_id']}: {facts['state_partitions']} state partitions, "
            f"checkpoint {facts['checkpoint']}"
        )
    if event == "stopped":
        return f"stopped after batch {_or_dash(facts['batch_id'])}"
    oldest = facts["oldest_pending_ms"]
    parts = [
        f"batch {_or_dash(facts['batch_id'])} ({_or_dash(facts['batch_ms'])} ms)",
        f"{facts['events_per_s']:,.0f} events/s",
        *(f"{name} {facts['counts'].get(name, 0):,}" for name in SHOWN_COUNTS),
        f"pending {facts['pending']:,}",
        f"oldest {'-' if oldest is None else f'{oldest / 1_000:.1f} s'}",
    ]
    if facts["check_backlog"]:
        parts.append(f"checks waiting {facts['check_backlog']:,}")
    if facts["undelivered_groups"]:
        parts.append(f"no check topic for {', '.join(sorted(facts['undelivered_groups']))}")
    if facts["groups_without_members"]:
        parts.append(f"nobody answers for {', '.join(facts['groups_without_members'])}")
    return "  ".join(parts)


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
