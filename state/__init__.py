"""The rules of the check service, pure: pages of half offsets, and what they decide.

No engine, no broker, no clock, no logging, no chance: time comes in as an argument, and what is to
be done comes out as arrays.
"""

from checkback.state.engine import ALL_READ, NOTHING_READ, Decision, decide
from checkback.state.formats.events import BEFORE_OPS, EventKind, Events
from checkback.state.formats.outcome import Action, Counter, Outcome
from checkback.state.formats.relay_limits import NO_FLOOR, NO_RELAY, RelayLimits
from checkback.state.formats.settled_marks import (
    CLAIM_KEY,
    Mark,
    SettledMarks,
    mark_key,
    marks_of,
    pack_settled,
    unpack_settled,
)
from checkback.state.page.page import PAGE_SIZE_MAX, PAGE_VERSION, Page
from checkback.state.rules import Rules

__all__ = [
    "ALL_READ",
    "BEFORE_OPS",
    "CLAIM_KEY",
    "NOTHING_READ",
    "NO_FLOOR",
    "NO_RELAY",
    "PAGE_SIZE_MAX",
    "PAGE_VERSION",
    "Action",
    "Counter",
    "Decision",
    "EventKind",
    "Events",
    "Mark",
    "Outcome",
    "Page",
    "RelayLimits",
    "Rules",
    "SettledMarks",
    "decide",
    "mark_key",
    "marks_of",
    "pack_settled",
    "unpack_settled",
]
