"""The job's progress: what is pending and what happened since the last line."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, NamedTuple

from checkback.metrics.table import RECORD_KINDS
from checkback.protocol.durations import duration_text
from checkback.protocol.printable import printable
from checkback.sinks.batch_report import BatchReport, PageStatus, merged_counts
from checkback.streaming.stalls import Stall

SHOWN_COUNTS: Final = ("halves", "finals", "rollbacks", "checks", "discards", "refusals")
GROUPS_TOLD_MAX: Final = 100
GROUPS_NAMED_MAX: Final = 10
"""Of the groups without a check topic: in a line for programs, and in one for people."""
GROUPS_SHOWN_MAX: Final = 3
GAP: Final = "  "


@dataclass(slots=True)
class PendingIndex:
    """What the state holds, by page; exact, because every touched page reports its status."""

    _pages: dict[tuple[int, int], PageStatus] = field(default_factory=dict)
    _wakes: dict[tuple[int, int], int] = field(default_factory=dict)
    _reported: set[tuple[int, int]] | None = field(default_factory=set)

    def complete(self, statuses: Iterable[PageStatus]) -> None:
        """Add the checkpoint's statuses, once; those that batches reported are newer."""
        reported, self._reported = self._reported or set(), None
        self.update(
            status for status in statuses if (status.partition, status.page) not in reported
        )

    def update(self, statuses: Iterable[PageStatus]) -> None:
        """Add the statuses that a batch reported."""
        for status in statuses:
            key = (status.partition, status.page)
            if self._reported is not None:
                self._reported.add(key)
            if status.pending or status.state_bytes:
                self._pages[key] = status
            else:
                self._pages.pop(key, None)
            if status.wake_at_ms is None:
                self._wakes.pop(key, None)
            else:
                self._wakes[key] = status.wake_at_ms

    @property
    def next_wake_ms(self) -> int | None:
        """The time after which a page has something to do, None if no page ever has.

        Raises:
            LookupError: the checkpoint's statuses were not added yet.
        """
        if self._reported is not None:
            raise LookupError("the pages in the checkpoint are not known yet")
        return min(self._wakes.values(), default=None)

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
        """What those rows take up, packed."""
        return sum(status.state_bytes for status in self._pages.values())

    @property
    def is_complete(self) -> bool:
        """Whether the checkpoint's statuses were added."""
        return self._reported is None


class Held(NamedTuple):
    """What the state holds: see the properties of PendingIndex."""

    pending: int
    oldest_ms: int | None
    overdue: int
    state_rows: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """The content of one line.

    Args:
        time_ms: the time of the line.
        batch_id: the last batch that was written, None before the first.
        batches: batches since the last line.
        batch_ms: how long the last batch took, None before the first.
        events_per_s: halves and ops read per second since the last line.
        counts: counts since the last line, by name.
        pending: halves without a verdict.
        oldest_pending_ms: age of the oldest of them, None if none is pending.
        check_backlog: halves that are due and wait for their turn (checks_per_batch_max).
        undelivered_groups: groups without a check topic, with the number of undelivered requests.
        groups_without_members: groups that were asked since the last line and have no live member.
        refused: by the name of the reason, how many records were refused since the last line.
        refused_groups: the groups that most of them name, with how many.
        stalls: partitions that are not read further; see streaming.stalls.
        brokers_answer: whether the brokers answered when the line was made.
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
    refused: dict[str, int]
    stalls: list[Stall] = field(default_factory=list)
    refused_groups: dict[str, int] = field(default_factory=dict)
    brokers_answer: bool = True


@dataclass(slots=True)
class Progress:
    """Collects the reports of batches; one thread adds them, another reads lines.

    Args:
        index: the pending halves.
    """

    index: PendingIndex = field(default_factory=PendingIndex)
    totals: Counter[str] = field(default_factory=Counter)
    _since: Counter[str] = field(default_factory=Counter)
    _undelivered: Counter[str] = field(default_factory=Counter)
    _refused: Counter[str] = field(default_factory=Counter)
    _refused_groups: Counter[str] = field(default_factory=Counter)
    _asked: set[str] = field(default_factory=set)
    _batches: int = 0
    _batch_id: int | None = None
    _line_ms: int | None = None
    _lock: Lock = field(default_factory=Lock)

    def add(self, batch_id: int, reports: list[BatchReport]) -> None:
        """Add the reports of a batch's tasks."""
        counts = merged_counts(reports)
        with self._lock:
            self._batch_id = batch_id
            self._batches += 1
            self._since.update(counts)
            self.totals.update(counts)
            for report in reports:
                self.index.update(report.pages)
                self._undelivered.update(report.undelivered_groups)
                self._refused.update(report.refused)
                self._refused_groups.update(report.refused_groups)
                self._asked.update(report.asked_groups)

    def complete(self, statuses: Iterable[PageStatus]) -> None:
        """Add the statuses that the checkpoint held when the job began."""
        with self._lock:
            self.index.complete(statuses)

    def next_wake_ms(self) -> int | None:
        """Return the time after which a page has something to do; as PendingIndex tells it."""
        with self._lock:
            return self.index.next_wake_ms

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
        self,
        now_ms: int,
        batch_ms: int | None,
        groups_without_members: Sequence[str] = (),
        stalls: Sequence[Stall] = (),
        *,
        brokers_answer: bool = True,
    ) -> ProgressLine:
        """Return the present line and begin the next one."""
        with self._lock:
            elapsed_s = max(1, now_ms - (self._line_ms or now_ms)) / 1_000
            counts = dict(self._since)
            undelivered = dict(self._undelivered.most_common(GROUPS_TOLD_MAX))
            refused = dict(self._refused)
            groups = dict(self._refused_groups.most_common(GROUPS_SHOWN_MAX))
            batches, oldest_ms = self._batches, self.index.oldest_ms
            self._since.clear()
            self._undelivered.clear()
            self._refused.clear()
            self._refused_groups.clear()
            self._batches = 0
            self._line_ms = now_ms
            events = sum(counts.get(name, 0) for name in RECORD_KINDS)
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
                refused,
                list(stalls),
                groups,
                brokers_answer,
            )

    def held(self) -> Held | None:
        """Return what the state holds now; None until the checkpoint was read."""
        with self._lock:
            index = self.index
            if not index.is_complete:
                return None
            return Held(
                index.pending,
                index.oldest_ms,
                index.overdue,
                index.state_rows,
                index.state_bytes,
            )


def line_text(event: str, facts: Mapping[str, Any], width: int = 80) -> str:
    """Return an event as text for a terminal: started, progress (a ProgressLine) or another.

    Args:
        event: its name.
        facts: its fields.
        width: columns; a longer text goes on in further lines: between two of its parts, and
            between words of a part that is too long for a line. No name is broken.
    """
    sentence = _sentence(event, facts)
    if sentence is not None:
        return "\n".join(_folded(sentence, width))
    parts = [*_work(facts), *_warnings(facts)]
    clock = time.strftime("%H:%M:%S", time.localtime(facts["time_ms"] / 1_000))
    return _in_lines(clock, parts, width)


def _sentence(event: str, facts: Mapping[str, Any]) -> str | None:
    """Return an event other than progress as one line, however wide; None for progress."""
    if event == "started":
        return (
            f"started {facts['application_id']}: {facts['state_partitions']} state partitions, "
            f"checkpoint {facts['checkpoint']}, access control {facts['access_control']}"
        )
    if event == "access_rules":
        return (
            f"ACCESS CONTROL {facts['access_control']}, was {facts['before']}: from batch "
            f"{facts['from_batch']} on rules {facts['version'] or 'none'}, "
            f"before {facts['version_before'] or 'none'}"
        )
    if event == "access_rules_broken":
        return f"ACCESS RULES BROKEN, the older ones stay in force: {facts['problem']}"
    if event == "stopped":
        return f"stopped after batch {_or_dash(facts['batch_id'])}"
    return None


def is_quiet(facts: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> bool:
    """Return whether nothing happened, and nothing is amiss that was not before.

    Args:
        facts: a progress line's.
        before: those of the line before it.
    """
    if any(facts["counts"].get(name) for name in SHOWN_COUNTS) or facts["refused"]:
        return False
    return _amiss(facts) == ([] if before is None else _amiss(before))


def _amiss(facts: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return what a line warns of, without how long it lasts or how much of it there is."""
    found: dict[str, Sequence[object]] = {
        "brokers silent": [] if facts.get("brokers_answer", True) else [True],
        "checks waiting": [True] if facts["check_backlog"] else [],
        "no check topic": sorted(facts["undelivered_groups"]),
        "nobody answers": facts["groups_without_members"],
        "stalled": [(one["topic"], one["partition"]) for one in facts.get("stalls", ())],
    }
    return [(what, one) for what, those in found.items() for one in those]


def _work(facts: Mapping[str, Any]) -> list[str]:
    """Return what was done and what is pending, without what is zero."""
    batch_ms, oldest_ms = facts["batch_ms"], facts["oldest_pending_ms"]
    took = "" if batch_ms is None else f" ({duration_text(batch_ms)})"
    parts = [f"batch {_or_dash(facts['batch_id'])}{took}"]
    if facts["events_per_s"] >= 0.5:
        parts.append(f"{facts['events_per_s']:,.0f} events/s")
    counts = {name: facts["counts"].get(name, 0) for name in SHOWN_COUNTS}
    parts += [f"{name} {count:,}" for name, count in counts.items() if count]
    parts.append(f"pending {facts['pending']:,}" if facts["pending"] else "nothing pending")
    if oldest_ms is not None:
        parts.append(f"oldest {duration_text(oldest_ms)}")
    return parts


def _warnings(facts: Mapping[str, Any]) -> list[str]:
    parts = [] if facts.get("brokers_answer", True) else ["the brokers do not answer"]
    if facts["check_backlog"]:
        parts.append(f"checks waiting {facts['check_backlog']:,}")
    if facts["refused"]:
        named = (f"{name} {number:,}" for name, number in sorted(facts["refused"].items()))
        parts.append(f"refused: {', '.join(named)}")
        by_group = facts.get("refused_groups", {}).items()
        groups = ", ".join(f"{_shown(name)} {number:,}" for name, number in by_group)
        if groups:
            parts.append(f"most of them of group {groups}")
    if facts["undelivered_groups"]:
        parts.append(f"no check topic for {_named(sorted(facts['undelivered_groups']))}")
    if facts["groups_without_members"]:
        parts.append(f"nobody answers for {_named(facts['groups_without_members'])}")
    parts += [Stall(**stall).says() for stall in facts.get("stalls", ())]
    return parts


def _named(groups: Sequence[str]) -> str:
    """Return the first groups by name and how many more there are; anybody may name a group."""
    names = [_shown(group) for group in groups[:GROUPS_NAMED_MAX]]
    more = len(groups) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _shown(group: str) -> str:
    return printable(group) or "(none)"


def _in_lines(first: str, parts: Sequence[str], width: int) -> str:
    lines, indent = [first], " " * len(first)
    for part in parts:
        begun, *further = _folded(part, width - len(first + GAP))
        if len(lines[-1]) + len(GAP + begun) > width or further:
            lines.append(indent)
        lines[-1] += GAP + begun
        lines += [indent + GAP + line for line in further]
    return "\n".join(lines)


def _folded(text: str, columns: int) -> list[str]:
    """Return a text as lines, the further ones indented; no word is broken, as names are words."""
    return textwrap.wrap(
        text, max(columns, len(GAP) + 1), subsequent_indent=GAP,
        break_long_words=False, break_on_hyphens=False,
    ) or [""]  # fmt: skip


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
