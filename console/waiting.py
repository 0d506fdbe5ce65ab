"""Explains why a transaction is still pending, and what to do about it. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from checkback.operations.diagnosis import GroupFacts
from checkback.operations.history import TransactionHistory

ASKING: Final = ("check request", "check undelivered", "mark")
"""Kinds of events that say how often was asked."""
UNKNOWN: Final = "unknown"


class Waiting(NamedTuple):
    """What a pending transaction waits for, and what to do."""

    says: str
    remedy: str


def waiting(history: TransactionHistory, group: GroupFacts, check_max: int) -> Waiting:
    """Return what a pending transaction waits for.

    Args:
        history: its events.
        group: its producer group.
        check_max: check requests after which it is discarded.
    """
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
        told = "The pipeline has not asked about it yet."
    elif answers:
        told = f"Asked {asked} of {max(1, check_max)} times; the last answer was {UNKNOWN}."
    else:
        told = f"Asked {asked} of {max(1, check_max)} times; no answer came."
    members, remedy = _members(group)
    if not remedy and answers:
        remedy = "Its application does not know how this ended: look there, then decide by hand."
    return Waiting(f"{told} {members}", remedy)


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
