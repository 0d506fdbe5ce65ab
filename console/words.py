"""A transaction in words: what happened, who did it, why; what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from checkback.operations.doctor.judgements import GroupFacts
from checkback.operations.transactions.history import HistoryEvent, TransactionHistory
from checkback.protocol.durations import duration_text


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One event.

    Args:
        after: how long after the event before, "" for the first.
        who: who said or did it, "" where the pipeline did.
        why: the reason given, "" for none.
        link: position of another half that it names, "" for none.
    """

    kind: str
    time_ms: int
    after: str
    title: str
    who: str
    why: str
    place: str
    link: str = ""


def timeline(history: TransactionHistory) -> list[TimelineEntry]:
    """Return the events of a history in words, in the order of time."""
    entries = []
    before: int | None = None
    for event in history.events:
        title, who, why, link = _WORDS[event.kind](event.facts)
        after = "" if before is None else f"+{duration_text(event.time_ms - before)}"
        place = f"{event.topic} {event.at}"
        entries.append(
            TimelineEntry(event.kind, event.time_ms, after, title, who, why, place, link)
        )
        before = event.time_ms
    return entries


def half_properties(history: TransactionHistory) -> Mapping[str, str]:
    """Return the properties of the half, its key among them; none if it is gone."""
    halves: list[HistoryEvent] = history.of_kind("half")
    if not halves:
        return {}
    facts = halves[0].facts
    key = {} if facts["key"] is None else {"(key)": facts["key"]}
    return {**key, **facts["properties"]}


Words = tuple[str, str, str, str]
"""Title, who, why, link."""


def _half(facts: Mapping[str, Any]) -> Words:
    resumed_from = str(facts.get("resumed_from", ""))
    why = f"resumed from discarded record {resumed_from}" if resumed_from else ""
    group = facts["properties"].get("PGROUP", "")
    return f"Half message stored, {facts['body_bytes']} bytes", f"group {group}", why, ""


def _op(facts: Mapping[str, Any]) -> Words:
    if facts["manual"]:
        return f"Op says {facts['says']}", f"operator {facts['operator']}", facts["remark"], ""
    answer = ", answering a check" if facts["answers_check"] else ""
    return f"Op says {facts['says']}{answer}", f"group {facts['group']}", facts["remark"], ""


def _check(facts: Mapping[str, Any]) -> Words:
    return f"Asked back: check request {facts['check_times']}", "", "", ""


def _undelivered(facts: Mapping[str, Any]) -> Words:
    why = "the group has no check topic"
    return f"Check request {facts['check_times']} was not delivered", "", why, ""


def _mark(facts: Mapping[str, Any]) -> Words:
    batch, times = f"batch {facts['batch_id']}", facts["check_times"]
    checks = f"{times} check{'s' * (times > 1)}" if times > 0 else ""
    if not facts["verdict"]:
        return f"Noted by {batch}: {facts['mark']}", "", checks and f"{checks} so far", ""
    by = ", delivered by a relay" if facts["mark"] == "delivered" else ""
    return f"Verdict: {facts['verdict']}{by} ({batch})", "", checks and f"after {checks}", ""


def _final(facts: Mapping[str, Any]) -> Words:
    return f"Final message delivered, {facts.get('body_bytes', 0)} bytes", "", "", ""


def _discarded(facts: Mapping[str, Any]) -> Words:
    return f"Discarded after {facts['check_times']} checks", "", facts["reason"], ""


def _resumed(facts: Mapping[str, Any]) -> Words:
    to = str(facts["resumed_to"])
    return f"Resumed as {to}", f"operator {facts['operator']}", facts["reason"], to


def _refused(facts: Mapping[str, Any]) -> Words:
    origin = f"{facts['origin_topic']} {facts['origin_partition']}:{facts['origin_offset']}"
    return f"Refused: {facts['reason']}", "", f"{facts['says']} ({origin})", ""


def _resent(facts: Mapping[str, Any]) -> Words:
    to = str(facts["resent_to"])
    return f"Final message sent again as {to}", f"operator {facts['operator']}", facts["reason"], to


_WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], Words]]] = {
    "half": _half,
    "op": _op,
    "check request": _check,
    "check undelivered": _undelivered,
    "mark": _mark,
    "final": _final,
    "discarded": _discarded,
    "resumed": _resumed,
    "refused": _refused,
    "resent": _resent,
}
"""By kind of event; every kind of KINDS has one."""


ASKING: Final = ("check request", "check undelivered", "mark")
"""Kinds of events that say how often was asked."""
UNKNOWN: Final = "unknown"


class Waiting(NamedTuple):
    """What a pending transaction waits for, and what to do."""

    says: str
    remedy: str


def waiting(history: TransactionHistory, group: GroupFacts, check_max: int) -> Waiting:
    """Return what a pending transaction waits for."""
    decided = [one for one in history.of_kind("op") if one.facts["says"] != UNKNOWN]
    if decided and not history.of_kind("refused"):
        said = decided[-1].facts["says"]
        return Waiting(
            f"An op says {said}; the pipeline did not take it yet.",
            "If this stays, see on the overview whether the pipeline runs.",
        )
    asked = max(
        [one.facts["check_times"] for kind in ASKING for one in history.of_kind(kind)] + [0]
    )
    answers = [one for one in history.of_kind("op") if one.facts["answers_check"]]
    if not asked:
        state = "The pipeline has not asked about it yet."
    elif answers:
        state = f"Asked {asked} of {max(1, check_max)} times; the last answer was {UNKNOWN}."
    else:
        state = f"Asked {asked} of {max(1, check_max)} times; no answer came."
    members, remedy = _members(group)
    if not remedy and answers:
        remedy = "Its application does not know how this ended: look there, then decide by hand."
    return Waiting(f"{state} {members}", remedy)


def _members(group: GroupFacts) -> tuple[str, str]:
    start = f"Start a producer of {group.name}, which then answers, or decide by hand."
    if not group.has_check_topic:
        return f"{group.name} has no check topic: no producer of it ever started.", start
    if group.members is None:
        return f"Whether {group.name} has live members is not known.", ""
    if group.members == 0:
        return f"{group.name} has no live member.", start
    live = "1 live member" if group.members == 1 else f"{group.members} live members"
    return f"{group.name} has {live}.", ""
