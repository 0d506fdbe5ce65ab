"""Text for a terminal of progress lines and other events of the job."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from checkback.metrics.printable import printable
from checkback.protocol.durations import duration_text
from checkback.sinks.kafka.transaction.hanging import replica_remedy
from checkback.streaming.reports.progress import ProgressLine
from checkback.streaming.reports.unread import Unread

STILL_S: Final = 30.0
"""From here on that nothing is read is a warning: an idle batch is held for 20 s."""
SHOWN_COUNTS: Final = ("halves", "finals", "rollbacks", "checks", "discards", "refusals")
GROUPS_NAMED_MAX: Final = 10
GAP: Final = "  "


def event_text(event: str, facts: Mapping[str, Any], width: int = 80) -> str:
    """Return an event other than progress as text for a terminal.

    Args:
        width: columns; a longer text goes on in further lines, between words. No name is broken.
    """
    return "\n".join(_folded(_sentence(event, facts), width))


def progress_text(line: ProgressLine, width: int = 80) -> str:
    """Return a progress line as text for a terminal.

    Args:
        width: columns; a longer text goes on in further lines: between two of its parts, and
            between words of a part that is too long for a line. No name is broken.
    """
    clock = time.strftime("%H:%M:%S", time.localtime(line.time_ms / 1_000))
    return _in_lines(clock, [*_work(line), *_warnings(line)], width)


def _sentence(event: str, facts: Mapping[str, Any]) -> str:
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
    return f"stopped after batch {_or_dash(facts['batch_id'])}"


def is_quiet(line: ProgressLine, before: ProgressLine | None = None) -> bool:
    """Return whether nothing happened since the line before, and nothing new is amiss."""
    if any(line.counts.get(name) for name in SHOWN_COUNTS) or line.refused:
        return False
    return _amiss(line) == ([] if before is None else _amiss(before))


def _amiss(line: ProgressLine) -> list[tuple[str, object]]:
    """Return what a line warns of, without durations and numbers."""
    found: dict[str, Sequence[object]] = {
        "brokers silent": [] if line.brokers_answer else [True],
        "writing": [True] if line.waits_for else [],
        "checks waiting": [True] if line.check_backlog else [],
        "checks undelivered": sorted(line.undelivered_groups),
        "nobody answers": line.groups_without_members,
        "short of replicas": [short.topic for short in line.short_topics],
        "nothing read": [of_topic.topic for of_topic in _unread_for_long(line)],
        "stalled": [(stall.topic, stall.partition) for stall in line.stalls],
    }
    return [(what, place) for what, places in found.items() for place in places]


def _work(line: ProgressLine) -> list[str]:
    """Return what was done and what is pending, zeros left out."""
    took = "" if line.batch_ms is None else f" ({duration_text(line.batch_ms)})"
    parts = [f"batch {_or_dash(line.batch_id)}{took}"]
    if line.batch_age_ms is not None and line.batch_age_ms >= 1_000 * STILL_S:
        parts[0] += f" {duration_text(line.batch_age_ms)} ago"
    if line.events_per_s >= 0.5:
        parts.append(f"{line.events_per_s:,.0f} events/s")
    counts = {name: line.counts.get(name, 0) for name in SHOWN_COUNTS}
    parts += [f"{name} {count:,}" for name, count in counts.items() if count]
    parts.append(f"pending {line.pending:,}" if line.pending else "nothing pending")
    if line.oldest_pending_ms is not None:
        parts.append(f"oldest {duration_text(line.oldest_pending_ms)}")
    unread = sum(of_topic.records for of_topic in line.unread)
    return parts + ([f"unread {unread:,}"] if unread else [])


def _warnings(line: ProgressLine) -> list[str]:
    parts = [] if line.brokers_answer else ["the brokers do not answer"]
    parts += [
        f"NOTHING READ for {duration_text(round(of_topic.still_s) * 1_000)}: {of_topic.says()}"
        for of_topic in _unread_for_long(line)
    ]
    if line.waits_for:
        parts.append(line.waits_for)
    if line.check_backlog:
        parts.append(f"checks waiting {line.check_backlog:,}")
    if line.refused:
        named = (f"{name} {number:,}" for name, number in sorted(line.refused.items()))
        parts.append(f"refused: {', '.join(named)}")
        by_group = line.refused_groups.items()
        groups = ", ".join(f"{_shown(name)} {number:,}" for name, number in by_group)
        if groups:
            parts.append(f"most of them of group {groups}")
    if line.undelivered_groups:
        parts.append(f"checks undelivered to {_named(sorted(line.undelivered_groups))}")
    if line.groups_without_members:
        parts.append(f"nobody answers for {_named(line.groups_without_members)}")
    parts += [f"{stall.says()}. {stall.remedy('')}" for stall in line.stalls]
    if line.short_topics:
        parts.append(f"waits for replicas: {replica_remedy(line.short_topics)}")
    return parts


def _unread_for_long(line: ProgressLine) -> list[Unread]:
    return [of_topic for of_topic in line.unread if of_topic.still_s >= STILL_S]


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
