"""What the job tells as text for a terminal: a progress line, or another event."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from checkback.protocol.durations import duration_text
from checkback.protocol.printable import printable
from checkback.sinks.kafka.unended import ShortTopic, what_brings_back
from checkback.streaming.stalls import Stall

SHOWN_COUNTS: Final = ("halves", "finals", "rollbacks", "checks", "discards", "refusals")
GROUPS_NAMED_MAX: Final = 10
GAP: Final = "  "


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
    """Return whether nothing happened since, and nothing new is amiss.

    Args:
        facts: a progress line's.
        before: those of the line before it.
    """
    if any(facts["counts"].get(name) for name in SHOWN_COUNTS) or facts["refused"]:
        return False
    return _amiss(facts) == ([] if before is None else _amiss(before))


def _amiss(facts: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return what a line warns of, without durations and numbers."""
    found: dict[str, Sequence[object]] = {
        "brokers silent": [] if facts.get("brokers_answer", True) else [True],
        "checks waiting": [True] if facts["check_backlog"] else [],
        "checks undelivered": sorted(facts["undelivered_groups"]),
        "nobody answers": facts["groups_without_members"],
        "short of replicas": [one["topic"] for one in facts.get("short_topics", ())],
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
        parts.append(f"checks undelivered to {_named(sorted(facts['undelivered_groups']))}")
    if facts["groups_without_members"]:
        parts.append(f"nobody answers for {_named(facts['groups_without_members'])}")
    stalls = [Stall(**stall) for stall in facts.get("stalls", ())]
    parts += [f"{stall.says()}. {stall.remedy('')}" for stall in stalls]
    short = [ShortTopic(**one) for one in facts.get("short_topics", ())]
    parts += [f"waits for replicas: {what_brings_back(short)}"] if short else []
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
