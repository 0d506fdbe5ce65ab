"""Judging what was found in the environment. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checkback.deploy.topics import FoundTopic, TopicDifference, compare
from checkback.operations.durations import duration_text
from checkback.protocol.configuration import Settings
from checkback.protocol.topics import DAY_MS, TopicNames, TopicPlan

SKEW_WARNING_MS: Final = 1_000
SKEW_FAILED_MS: Final = 60_000
BREAKING: Final = frozenset({"cleanup.policy"})
"""Differences that lose halves, ops or marks; others may be on purpose."""


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Args:
        check: what was looked at.
        result: how it is.
        says: the facts.
        remedy: what to do, "" where nothing has to be done.
    """

    check: str
    result: Result
    says: str
    remedy: str = ""


def judge_topics(
    plans: Sequence[TopicPlan], found: Mapping[str, FoundTopic], names: TopicNames
) -> list[Finding]:
    """Return one finding per topic.

    Args:
        plans: what each should be.
        found: those that exist.
        names: the names of the topics.
    """
    findings = [_judge_topic(plan, found.get(plan.name)) for plan in plans]
    half, op = found.get(names.half), found.get(names.op)
    if half is not None and op is not None and half.partitions != op.partitions:
        says = f"{names.half} has {half.partitions} partitions, {names.op} {op.partitions}"
        remedy = "Give the smaller one more partitions: they must be equal."
        findings.append(Finding("partitions", Result.FAILED, says, remedy))
    return findings


def _judge_topic(plan: TopicPlan, found: FoundTopic | None) -> Finding:
    check = f"topic {plan.name}"
    if found is None:
        return Finding(check, Result.FAILED, "missing", "Run `checkback topics create`.")
    differences = list(compare(plan, found))
    if not differences:
        return Finding(check, Result.OK, f"as planned, partitions: {found.partitions}")
    breaks = any(one.name in BREAKING or _is_too_narrow(one) for one in differences)
    says = "; ".join(f"{one.name} is {one.found}, wanted {one.wanted}" for one in differences)
    remedy = "Change the topic, or the setting if the topic is right."
    return Finding(check, Result.FAILED if breaks else Result.WARNING, says, remedy)


def _is_too_narrow(one: TopicDifference) -> bool:
    return one.name == "partitions" and int(one.found) < int(one.wanted)


def judge_retention(settings: Settings, half: FoundTopic, window_ms: int) -> Finding:
    """Return whether a half is kept for as long as it may be pending.

    Args:
        settings: name the topic.
        half: the half topic.
        window_ms: how long a half may be pending.
    """
    kept_ms = int(half.configs.get("retention.ms", "-1"))
    kept = "for ever" if kept_ms < 0 else f"for {duration_text(kept_ms)}"
    says = f"halves are kept {kept}, may be pending for {duration_text(window_ms)}"
    if 0 <= kept_ms < window_ms:
        remedy = f"Set retention.ms of {settings.topics.half} to {window_ms + DAY_MS} or more."
        return Finding("half retention", Result.FAILED, says, remedy)
    return Finding("half retention", Result.OK, says)


def judge_clock(before_ms: int, appended_ms: int, after_ms: int) -> Finding:
    """Return how far the brokers' clock is from this machine's.

    Args:
        before_ms: this clock, before a record was sent.
        appended_ms: the broker's clock, when it appended the record.
        after_ms: this clock, when the answer came.
    """
    ahead_ms = max(appended_ms - after_ms, before_ms - appended_ms, 0)
    if ahead_ms <= SKEW_WARNING_MS:
        return Finding("clock", Result.OK, f"at most {after_ms - before_ms} ms from the broker's")
    which = "behind" if appended_ms > after_ms else "ahead of"
    says = f"this machine's is {duration_text(ahead_ms)} {which} the broker's"
    remedy = "Set both by NTP: ages are told between the broker's time and the driver's."
    failed = ahead_ms > SKEW_FAILED_MS
    return Finding("clock", Result.FAILED if failed else Result.WARNING, says, remedy)


def judge_rights(what: str, needed: Collection[str], allowed: Collection[str]) -> Finding:
    """Return whether this user may do what the pipeline has to.

    Args:
        what: on which resource.
        needed: operations by Kafka's names.
        allowed: operations that the brokers say are allowed; everything where nobody asks.
    """
    missing = sorted(set(needed) - set(allowed)) if "ALL" not in allowed else []
    check = f"rights on {what}"
    if missing:
        remedy = f"Grant {', '.join(missing)} on {what}."
        return Finding(check, Result.FAILED, f"missing: {', '.join(missing)}", remedy)
    return Finding(check, Result.OK, ", ".join(sorted(needed)).lower())


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a producer group that has pending halves.

    Args:
        name: "" where the halves are gone from their topic.
        pending: how many halves.
        oldest_age_ms: age of the oldest.
        has_check_topic: whether the group ever registered.
        members: live members, None where this user may not look.
    """

    name: str
    pending: int
    oldest_age_ms: int
    has_check_topic: bool
    members: int | None


def judge_group(facts: GroupFacts) -> Finding:
    """Return whether anybody can answer for a group's pending halves."""
    waits = f"{facts.pending} pending, the oldest for {duration_text(facts.oldest_age_ms)}"
    check = f"group {facts.name}".rstrip()
    if not facts.name:
        says, remedy = "the halves are gone from their topic", "Raise its retention.ms."
        return Finding(check, Result.FAILED, f"{waits}: {says}", remedy)
    if not facts.has_check_topic:
        remedy = "Start a producer of the group; until then its checks are not counted."
        return Finding(check, Result.WARNING, f"{waits}: it has no check topic", remedy)
    if facts.members is None:
        remedy = f"Grant DESCRIBE on the group {facts.name}."
        return Finding(check, Result.WARNING, f"{waits}: its members may not be seen", remedy)
    if facts.members == 0:
        remedy = "Start a producer of the group: its checks are counted and nobody answers."
        return Finding(check, Result.WARNING, f"{waits}: it has no live member", remedy)
    return Finding(check, Result.OK, f"{waits}; {facts.members} live members")


def judge_compiled_sink(*, is_usable: bool) -> Finding:
    """Say whether finals can be forwarded by the sink's compiled part, on this machine."""
    if is_usable:
        return Finding("compiled sink", Result.OK, "usable")
    return Finding(
        "compiled sink",
        Result.WARNING,
        "not usable: final messages are made in Python, at half the speed",
        "Install a C compiler, then Checkback again.",
    )
