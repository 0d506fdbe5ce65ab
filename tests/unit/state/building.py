"""Short ways to write a page's events and to read its outcome."""

from __future__ import annotations

from tests.deciding import rules
from tests.property.model import COMMIT, DELIVERED, ROLLBACK, UNKNOWN, Act, Record
from tests.property.paged import acts_of, events_of

from checkback.state import (
    ALL_READ,
    BEFORE_OPS,
    NO_RELAY,
    EventKind,
    Page,
    RelayLimits,
    Rules,
    decide,
)

RULES = rules(
    transaction_timeout_ms=6_000,
    check_interval_ms=60_000,
    check_max=3,
    half_retention_ms=259_200_000,
    verdict_retention_ms=3_600_000,
)
SENT = 1_700_000_000_000
"""The store time of the halves in these tests."""
DUE = SENT + 6_001
"""The first millisecond in which a half without an immunity time gets a check request."""

__all__ = [
    "COMMIT",
    "DELIVERED",
    "DUE",
    "ROLLBACK",
    "RULES",
    "SENT",
    "UNKNOWN",
    "Act",
    "Story",
    "direct_op",
    "half",
    "op",
    "undelivered",
]


def half(offset: int, *, immunity_ms: int = -1, time: int = SENT, transaction: int = 1) -> Record:
    return Record(EventKind.HALF, offset, offset, time, transaction=transaction, detail=immunity_ms)


def op(offset: int, state: int, source: int = 0, *, group: int = 1, transaction: int = 1) -> Record:
    return Record(EventKind.OP, offset, source, SENT, group, transaction, state)


def undelivered(offset: int, check_times: int, source: int = 0) -> Record:
    return Record(EventKind.UNDELIVERED, offset, source, SENT, 0, 0, check_times)


def direct_op(offset: int, state: int, source: int = 0, *, transaction: int = 1) -> Record:
    """Return an op of the former direct op topic."""
    return Record(EventKind.OP, offset, BEFORE_OPS + source, SENT, 1, transaction, state)


class Story:
    """One page, batch after batch."""

    def __init__(self, rules: Rules = RULES, page_size: int = 1024, page: int = 0) -> None:
        self.rules = rules
        self.page = Page.empty(0, page, page_size)
        self.wake_at_ms: int | None = None

    def batch(
        self,
        now: int,
        *records: Record,
        budget: int = 2**31,
        read_until_ms: int = ALL_READ,
        relay: RelayLimits = NO_RELAY,
    ) -> list[Act]:
        events = events_of(records)
        decision = decide(
            self.page, events, now, self.rules, budget, read_until_ms=read_until_ms, relay=relay
        )
        self.page = Page.unpack(decision.page.pack())
        self.wake_at_ms = decision.wake_at_ms
        self.counters = decision.outcome.counters
        self.outcome = decision.outcome
        return acts_of(decision.outcome)
