"""The job's progress: what is pending and what happened since the last line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from threading import Lock
from typing import Final

from checkback.metrics.table import RECORD_KINDS
from checkback.protocol.durations import duration_text
from checkback.sinks.kafka.read.list_offsets import Place
from checkback.sinks.kafka.transaction.hanging import ShortTopic
from checkback.sinks.kafka.transaction.producer import ANSWER_MS_MAX
from checkback.sinks.report import BatchReport, PageStatus, summed
from checkback.streaming.reports.stalls import Stall
from checkback.streaming.reports.unread import Unread

UNDELIVERED_GROUPS_MAX: Final = 100
"""How many groups without a check topic a progress line names at most."""
NO_OFFSETS: Final[Mapping[Place, int]] = {}
GROUPS_SHOWN_MAX: Final = 3
WRITING_S: Final = 10.0
"""From here on a line says what a batch that is written waits for; most take one or two."""


@dataclass(slots=True)
class PendingIndex:
    """An index of the state by page; exact, because every touched page reports its status."""

    _pages: dict[tuple[int, int], PageStatus] = field(default_factory=dict)
    _wakes: dict[tuple[int, int], int] = field(default_factory=dict)
    _in_order: dict[int, list[int]] = field(default_factory=dict)
    """By partition, the pages as a heap; some that hold nothing more are still in it."""

    def update(self, statuses: Iterable[PageStatus]) -> None:
        """Add the statuses that the checkpoint held, or that a batch reported."""
        for status in statuses:
            key = (status.partition, status.page)
            if status.pending or status.state_bytes:
                if key not in self._pages:
                    heappush(self._in_order.setdefault(status.partition, []), status.page)
                self._pages[key] = status
            else:
                self._pages.pop(key, None)
            if status.wake_at_ms is None:
                self._wakes.pop(key, None)
            else:
                self._wakes[key] = status.wake_at_ms

    @property
    def next_wake_ms(self) -> int | None:
        """The time after which a page has something to do, None if no page ever has."""
        return min(self._wakes.values(), default=None)

    def first_pages(self) -> dict[int, int]:
        """Return the first page of each partition with a row in the state, where there is one."""
        for partition, pages in self._in_order.items():
            while pages and (partition, pages[0]) not in self._pages:
                heappop(pages)
        return {partition: pages[0] for partition, pages in self._in_order.items() if pages}

    @property
    def pending(self) -> int:
        """Halves without a verdict."""
        return sum(status.pending for status in self._pages.values())

    @property
    def overdue(self) -> int:
        """Halves that are due for a check request and wait for their turn."""
        return sum(status.overdue for status in self._pages.values())

    @property
    def oldest_ms(self) -> int | None:
        """Store time of the oldest pending half, None if none is pending."""
        pages = self._pages.values()
        return min((status.oldest_ms for status in pages if status.pending), default=None)

    @property
    def state_rows(self) -> int:
        """Pages that have a row in the state."""
        return len(self._pages)

    @property
    def state_bytes(self) -> int:
        """The size of those rows, packed."""
        return sum(status.state_bytes for status in self._pages.values())


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """The content of one line.

    Args:
        batch_id: the last batch that was written, None before the first.
        batch_ms: how long the last batch took, None before the first.
        events_per_s: halves and ops read per second since the last line.
        counts: counts since the last line, by name.
        oldest_pending_ms: age of the oldest of them, None if none is pending.
        check_backlog: halves that are due and wait for their turn (checks_per_batch_max).
        undelivered_groups: groups with a check topic that is missing or took no request, and the
            number of undelivered requests.
        groups_without_members: groups that were asked since the last line and have no live member.
        refused: by the name of the reason, how many records were refused since the last line.
        refused_groups: the groups that most of them name, with how many.
        stalls: partitions that are not read further; see stalls.py.
        short_topics: topics that lack replicas, so that a batch waits until the brokers can end its
            transaction there.
        unread: what lies unread on each topic, by the brokers.
        batch_age_ms: age of the last batch by a clock that is never set, None before the first.
        writing_ms: for how long the batch under way has been decided and written, None where none
            is.
        waits_for: what that batch waits for and until when, once it takes long; "" before.
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
    refused: dict[str, int]
    refused_groups: dict[str, int]
    groups_without_members: list[str] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    brokers_answer: bool = True
    short_topics: list[ShortTopic] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    batch_age_ms: int | None = None
    writing_ms: int | None = None
    waits_for: str = ""


def awaited(writing_ms: int | None) -> str:
    """Return what a batch that is written for long waits for, and until when; "" for others."""
    if writing_ms is None or writing_ms < 1_000 * WRITING_S:
        return ""
    return (
        f"WRITING a batch for {duration_text(writing_ms)}: a call that the brokers leave without "
        f"an answer is given up after {duration_text(ANSWER_MS_MAX)} and tried again"
    )


@dataclass(slots=True)
class Progress:
    """Collects the reports of batches; one thread adds them, another reads lines."""

    index: PendingIndex = field(default_factory=PendingIndex)
    totals: Counter[str] = field(default_factory=Counter)
    read: dict[Place, int] = field(default_factory=dict)
    """By partition, up to where written batches have read it, this job's or those before."""
    last_batch: int | None = None
    """The last batch that was written, None before the first."""
    _since: BatchReport = field(default_factory=lambda: BatchReport(-1))
    """The batches since the last line as one, without their pages."""
    _asked: set[str] = field(default_factory=set)
    _is_complete: bool = False
    _batches: int = 0
    _begun_s: float | None = None
    _line_ms: int | None = None
    _lock: Lock = field(default_factory=Lock)

    def begin(self, now_s: float) -> None:
        """Note that a batch was begun, by a clock that is never set."""
        self._begun_s = now_s

    def writing_ms(self, now_s: float) -> int | None:
        """Return for how long a batch has been under way, None where none is."""
        begun_s = self._begun_s
        return None if begun_s is None else max(0, int((now_s - begun_s) * 1_000))

    def add(
        self, batch_id: int, report: BatchReport, read: Mapping[Place, int] = NO_OFFSETS
    ) -> None:
        """Add the report of a batch's tasks, and up to where the batch has read."""
        with self._lock:
            self.read = {**self.read, **read}
            self.last_batch, self._begun_s = batch_id, None
            self._batches += 1
            self._since = summed([self._since, replace(report, pages=[])])
            self.totals.update(report.counts)
            self.index.update(report.pages)
            self._asked.update(report.asked_groups)

    def begin_with(self, statuses: Iterable[PageStatus]) -> None:
        """Take over the page statuses that the checkpoint held when the job began."""
        with self._lock:
            self.index.update(statuses)
            self._is_complete = True

    def next_wake_ms(self) -> int | None:
        """Return the time after which a page has something to do; as PendingIndex tells it."""
        with self._lock:
            return self.index.next_wake_ms

    def first_pages(self) -> dict[int, int]:
        """Return the first pages that hold something; as PendingIndex tells it."""
        with self._lock:
            return self.index.first_pages()

    def take_asked_groups(self) -> set[str]:
        """Return the groups that were asked since the last call."""
        with self._lock:
            asked, self._asked = self._asked, set()
        return asked

    def line(self, now_ms: int, batch_ms: int | None) -> ProgressLine:
        """Return what batches bring to the present line, and begin the next one."""
        with self._lock:
            elapsed_s = max(1, now_ms - (self._line_ms or now_ms)) / 1_000
            since, self._since = self._since, BatchReport(-1)
            batches, self._batches = self._batches, 0
            self._line_ms, oldest_ms = now_ms, self.index.oldest_ms
            events = sum(since.counts[name] for name in RECORD_KINDS)
            return ProgressLine(
                now_ms,
                self.last_batch,
                batches,
                batch_ms,
                events / elapsed_s if elapsed_s > 0.01 else 0.0,
                dict(since.counts),
                self.index.pending,
                None if oldest_ms is None else max(0, now_ms - oldest_ms),
                self.index.overdue,
                dict(since.undelivered_groups.most_common(UNDELIVERED_GROUPS_MAX)),
                dict(since.refused),
                dict(since.refused_groups.most_common(GROUPS_SHOWN_MAX)),
            )

    def figure(self, of: Callable[[PendingIndex], float]) -> float:
        """Return a figure of the state; no number, instead of 0, until the checkpoint was read."""
        with self._lock:
            return of(self.index) if self._is_complete else math.nan
