"""Judges facts about the environment. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from checkback.client.options import ProducerOptions
from checkback.deploy.topics import FoundTopic, TopicDifference, compare
from checkback.metrics.printable import printable
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.topics import DAY_MS, TopicNames, TopicPlan, breaking_configs
from checkback.sinks.kafka.cluster.share_groups import (
    ISOLATION,
    READ_COMMITTED,
    isolation_command,
)

SKEW_WARNING_MS: Final = 1_000
SKEW_FAILED_MS: Final = 60_000
SHORT_NAMED_MAX: Final = 10
SESSIONS_LEAST: Final = 10
"""How many session timeouts of a producer all checks of a half should take together: a process that
crashes in a loop takes a new share of the checks each time."""


class Result(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The finding of one check."""

    check: str
    result: Result
    says: str
    remedy: str = ""


def judge_topics(
    plans: Sequence[TopicPlan], found: Mapping[str, FoundTopic], names: TopicNames
) -> list[Diagnosis]:
    """Return one finding per topic."""
    findings = [_judge_topic(plan, found.get(plan.name), names) for plan in plans]
    half = found.get(names.half)
    for topic in names.read[1:]:
        other = found.get(topic)
        if half is not None and other is not None and half.partitions != other.partitions:
            says = f"{names.half} has {half.partitions} partitions, {topic} {other.partitions}"
            remedy = "Give the smaller one more partitions: they must be equal."
            findings.append(Diagnosis("partitions", Result.FAILED, says, remedy))
    return findings


def _judge_topic(plan: TopicPlan, found: FoundTopic | None, names: TopicNames) -> Diagnosis:
    check = f"topic {plan.name}"
    if found is None:
        return Diagnosis(check, Result.FAILED, "missing", "Run `checkback topics create`.")
    if not found.partitions:
        remedy = f"Grant DESCRIBE and DESCRIBECONFIGS on {plan.name} to this user."
        result = Result.WARNING if plan.name == names.status else Result.FAILED
        return Diagnosis(check, result, "this user may not see it", remedy)
    differences = list(compare(plan if found.configs else replace(plan, configs={}), found))
    if not differences and not found.configs:
        says = f"partitions: {found.partitions}; this user may not see its settings"
        remedy = f"Grant DESCRIBECONFIGS on {plan.name} to have them compared with their plan."
        return Diagnosis(check, Result.WARNING, says, remedy)
    if not differences:
        return Diagnosis(check, Result.OK, f"as planned, partitions: {found.partitions}")
    breaking = breaking_configs(names, plan.name)  # other differences may be on purpose
    breaks = any(one.name in breaking or _is_too_narrow(one) for one in differences)
    says = "; ".join(f"{one.name} is {one.found}, wanted {one.wanted}" for one in differences)
    remedy = "Change the topic; if the topic is right, change the setting."
    return Diagnosis(check, Result.FAILED if breaks else Result.WARNING, says, remedy)


def _is_too_narrow(one: TopicDifference) -> bool:
    return one.name == "partitions" and int(one.found) < int(one.wanted)


def judge_retention(settings: Settings, half: FoundTopic, window_ms: int) -> Diagnosis:
    """Return whether halves are kept for as long as they may be pending."""
    if not half.configs:
        says = "this user may not see how long halves are kept"
        remedy = f"Grant DESCRIBECONFIGS on {settings.topics.half}."
        return Diagnosis("half retention", Result.WARNING, says, remedy)
    kept_ms = int(half.configs.get("retention.ms", "-1"))
    kept = "for ever" if kept_ms < 0 else f"for {duration_text(kept_ms)}"
    says = f"halves are kept {kept}, may be pending for {duration_text(window_ms)}"
    if 0 <= kept_ms < window_ms:
        remedy = f"Set retention.ms of {settings.topics.half} to {window_ms + DAY_MS} or more."
        return Diagnosis("half retention", Result.FAILED, says, remedy)
    return Diagnosis("half retention", Result.OK, says)


def judge_refused(reasons: Mapping[str, int], topic: str, most: int) -> Diagnosis:
    """Return how many records were refused in the last day, and why."""
    number = sum(reasons.values())
    if not number:
        return Diagnosis("refused records", Result.OK, "none in the last day, or all sent again")
    by_reason = sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    named = ", ".join(f"{name} {count:,}" for name, count in by_reason)
    so_far = "at least " if number >= most else ""
    says = f"{so_far}{number:,} in the last day and not sent again: {named}"
    remedy = f"See `checkback docs alerts`; the records are on {topic}."
    return Diagnosis("refused records", Result.WARNING, says, remedy)


def judge_replicas(short: Mapping[str, str], ours: Collection[str]) -> Diagnosis:
    """Return which topics take nothing because replicas are missing."""
    if not short:
        return Diagnosis("replicas", Result.OK, "every topic has those that it needs")
    own_first = sorted(short, key=lambda topic: (topic not in ours, topic))
    named = ", ".join(f"{topic} ({short[topic]})" for topic in own_first[:SHORT_NAMED_MAX])
    says = f"{len(short)} with a partition that takes no records: {named}"
    remedy = "Bring their brokers back, or lower min.insync.replicas; see `checkback docs bad-days`"
    result = Result.WARNING if short.keys().isdisjoint(ours) else Result.FAILED
    return Diagnosis("replicas", result, says, f"{remedy}.")


def judge_share_groups(levels: Mapping[str, str], bootstrap_servers: str) -> list[Diagnosis]:
    """Return which share groups read the messages of aborted transactions, too.

    Args:
        levels: `share.isolation.level` by group, "" where it may not be seen.
        bootstrap_servers: of the command that is to be typed.
    """
    findings, hidden = [], []
    for name, level in levels.items():
        group = printable(name)
        if not level:
            hidden.append(group)
        elif level != READ_COMMITTED:
            says = f"{group} reads aborted messages, too: {ISOLATION} is {level}"
            command = isolation_command(bootstrap_servers, group)
            remedy = f"If it reads topics that Checkback delivers to: `{command}`."
            findings.append(Diagnosis("share groups", Result.WARNING, says, remedy))
    if hidden:
        says = f"{ISOLATION} may not be seen of: {', '.join(hidden[:SHORT_NAMED_MAX])}"
        remedy = "Grant DESCRIBE_CONFIGS on these groups, or see that it is read_committed."
        findings.append(Diagnosis("share groups", Result.WARNING, says, remedy))
    return findings or [Diagnosis("share groups", Result.OK, "none reads aborted messages")]


def judge_clock(before_ms: int, appended_ms: int, after_ms: int) -> Diagnosis:
    """Return how much the brokers' clock and this machine's differ."""
    ahead_ms = max(appended_ms - after_ms, before_ms - appended_ms, 0)
    if ahead_ms <= SKEW_WARNING_MS:
        return Diagnosis(
            "clock", Result.OK, f"at most {duration_text(after_ms - before_ms)} from the broker's"
        )
    which = "behind" if appended_ms > after_ms else "ahead of"
    says = f"this machine's is {duration_text(ahead_ms)} {which} the broker's"
    remedy = "Set both by NTP: an age is the driver's time minus the broker's."
    failed = ahead_ms > SKEW_FAILED_MS
    return Diagnosis("clock", Result.FAILED if failed else Result.WARNING, says, remedy)


def judge_rights(what: str, needed: Collection[str], allowed: Collection[str]) -> Diagnosis:
    """Return whether this user may do what the pipeline has to do."""
    missing = sorted(set(needed) - set(allowed)) if "ALL" not in allowed else []
    check = f"rights on {what}"
    if missing:
        remedy = f"Grant {', '.join(missing)} on {what}."
        return Diagnosis(check, Result.FAILED, f"missing: {', '.join(missing)}", remedy)
    return Diagnosis(check, Result.OK, ", ".join(sorted(needed)).lower())


def judge_relays(members: int | None) -> Diagnosis:
    """Return whether a relay is alive, for a job that leaves the ops to relays.

    Args:
        members: of their consumer group; None where this user may not see it.
    """
    if members is None:
        remedy = "Grant DESCRIBE on the relays' consumer group to this user."
        return Diagnosis("relay", Result.WARNING, "members can't be seen", remedy)
    if members:
        return Diagnosis("relay", Result.OK, f"{members} alive")
    says = "relay is set and none is alive: commits wait, and nothing is asked or discarded"
    remedy = "Run `checkback relay` with the job's configuration; see `checkback docs relay`."
    return Diagnosis("relay", Result.FAILED, says, remedy)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Facts about a producer group that has pending halves.

    Args:
        name: its name, "" if the halves are gone from their topic.
        members: number of live members, None if it is not known.
        asked_again: how many of the halves more than one check request counts for.
        undelivered: why the sink can't write a check request for the oldest one, "" where it can.
    """

    name: str
    pending: int
    oldest_age_ms: int
    has_check_topic: bool
    members: int | None
    asked_again: int = 0
    undelivered: str = ""


def judge_group(facts: GroupFacts) -> Diagnosis:
    """Return whether the group has a process that can answer for its pending halves."""
    waits = f"{facts.pending} pending, the oldest for {duration_text(facts.oldest_age_ms)}"
    check = f"group {facts.name}".rstrip()
    if not facts.name:
        says, remedy = "the halves are gone from their topic", "Raise the topic's retention.ms."
        return Diagnosis(check, Result.FAILED, f"{waits}: {says}", remedy)
    if not facts.has_check_topic:
        remedy = "Start a producer of the group; until then its checks do not count."
        return Diagnosis(check, Result.WARNING, f"{waits}: it has no check topic", remedy)
    if facts.undelivered:
        says = f"check requests for that one are not delivered: {printable(facts.undelivered)}"
        remedy = (
            "Mend the topic; until then such checks do not count. See `checkback docs protocol`."
        )
        return Diagnosis(check, Result.WARNING, f"{waits}: {says}", remedy)
    if facts.members is None:
        remedy = (
            "Grant DESCRIBE on the consumer group of its check topic's name, and see that all"
            " brokers answer. Members of Kafka's newer protocol of groups are not counted."
        )
        return Diagnosis(check, Result.WARNING, f"{waits}: its members are not known", remedy)
    if facts.members == 0:
        remedy = "Start a producer of the group: its checks count although no process answers."
        return Diagnosis(check, Result.WARNING, f"{waits}: it has no live member", remedy)
    live = f"live members: {facts.members}"
    if facts.asked_again:
        says = f"{facts.asked_again} asked about more than once; {live}"
        remedy = "See in `checkback tx show` whether answers come, and whether they say unknown."
        return Diagnosis(check, Result.WARNING, f"{waits}: {says}", remedy)
    return Diagnosis(check, Result.OK, f"{waits}; {live}")


def judge_check_times(settings: Settings) -> Diagnosis:
    """Return whether the checks of a half go on for long enough to reach a process that answers."""
    all_ms = max(1, settings.check_max) * settings.check_interval_ms
    session_ms = ProducerOptions.check_session_timeout_ms
    says = f"all checks of a half are over within {duration_text(all_ms)}"
    if all_ms >= SESSIONS_LEAST * session_ms:
        return Diagnosis("checks", Result.OK, says)
    says += f"; a process that crashes again and again keeps some for {duration_text(session_ms)}"
    remedy = (
        f"Let check_max times check_interval_ms be {SESSIONS_LEAST} session timeouts of the"
        f" producers or more: {SESSIONS_LEAST * session_ms} as they are delivered."
    )
    return Diagnosis("checks", Result.WARNING, says, remedy)


def judge_unread(
    unread: Mapping[str, int], oldest_age_ms: int | None, batch_age_ms: int, age_ms_max: int
) -> Diagnosis:
    """Return whether the pipeline reads what lies on its topics, by the brokers and a clock."""
    batch = f"the last batch is {duration_text(batch_age_ms)} old"
    named = ", ".join(f"{number:,} on {topic}" for topic, number in unread.items() if number)
    if oldest_age_ms is None:
        says = f"none; {batch}"
    else:
        says = f"{named}, the oldest for {duration_text(oldest_age_ms)}; {batch}"
    if max(oldest_age_ms or 0, batch_age_ms) <= age_ms_max:
        return Diagnosis("unread records", Result.OK, says)
    remedy = "Unless the number falls, see CheckbackUnread in `checkback docs alerts`."
    return Diagnosis("unread records", Result.WARNING, says, remedy)


def judge_running(runs: bool | None) -> Diagnosis | None:
    """Return whether the pipeline runs; None where that is not known."""
    if runs is None:
        return None
    if runs:
        return Diagnosis("pipeline", Result.OK, "runs")
    says = "none runs over the checkpoint, so nothing is decided or delivered"
    remedy = "Run `checkback run`; what it printed last, and its log_file, say why it ended."
    return Diagnosis("pipeline", Result.WARNING, says, remedy)


def judge_compiled_sink(*, is_usable: bool) -> Diagnosis:
    """Return whether the sink's compiled part works on this machine."""
    if is_usable:
        return Diagnosis("compiled sink", Result.OK, "usable")
    return Diagnosis(
        "compiled sink",
        Result.WARNING,
        "not usable: Python builds the final messages, at half the speed",
        "Install a C compiler, then Checkback again.",
    )
