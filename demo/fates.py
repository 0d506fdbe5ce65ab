"""The fates of the demo's orders, planned from a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from checkback.protocol.errors import UsageError


class Fate(StrEnum):
    """What happens to an order during the demo."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    UNKNOWN_THEN_COMMITTED = "unknown_then_committed"
    UNKNOWN_THEN_ROLLED_BACK = "unknown_then_rolled_back"
    KILLED_BEFORE_OP_COMMITTED = "killed_before_op_committed"
    KILLED_BEFORE_LOCAL = "killed_before_local"
    NEVER_ANSWERED = "never_answered"

    @property
    def label(self) -> str:
        """The fate's name in the demo's table."""
        return _FACTS[self].label


class _Facts(NamedTuple):
    label: str
    percent: int  # of all orders; the others are committed at once


_FACTS: Final[Mapping[Fate, _Facts]] = {
    Fate.COMMITTED: _Facts("committed at once", 0),
    Fate.ROLLED_BACK: _Facts("rolled back at once", 15),
    Fate.UNKNOWN_THEN_COMMITTED: _Facts("unknown, committed", 10),
    Fate.UNKNOWN_THEN_ROLLED_BACK: _Facts("unknown, rolled back", 7),
    Fate.KILLED_BEFORE_OP_COMMITTED: _Facts("killed after commit", 8),
    Fate.KILLED_BEFORE_LOCAL: _Facts("killed before commit", 5),
    Fate.NEVER_ANSWERED: _Facts("never answered", 4),
}

ORDERS_MIN: Final = 30
PER_FATE_MIN: Final = 3
KILLS: Final = 3
"""How often the order service is killed and started again."""

_FATAL: Final = (Fate.KILLED_BEFORE_OP_COMMITTED, Fate.KILLED_BEFORE_LOCAL)

REAL_TOPICS: Final = ("orders.retail", "orders.wholesale")
_CUSTOMERS: Final = ("Asta", "Björn", "Chloé", "Dmitri", "Εὔα", "藤子")


@dataclass(frozen=True, slots=True)
class Order:
    """One order."""

    order_id: str
    fate: Fate
    topic: str
    body: bytes
    batch: int

    @property
    def is_fatal(self) -> bool:
        """Whether the process that sends it is killed and started again."""
        return self.fate in _FATAL


def count_fates(orders: int) -> dict[Fate, int]:
    """Return how many orders get each fate: several of each, most of them committed at once."""
    if orders < ORDERS_MIN:
        raise UsageError(
            f"{orders} orders are too few to show every fate.",
            remedy=f"Use --orders {ORDERS_MIN} or more.",
            orders=orders,
        )
    counts = {
        fate: max(PER_FATE_MIN, orders * facts.percent // 100)
        for fate, facts in _FACTS.items()
        if facts.percent
    }
    return {Fate.COMMITTED: orders - sum(counts.values()), **counts}


def plan_orders(orders: int, seed: int) -> list[Order]:
    """Return the orders in the order of sending; the same seed gives the same orders.

    Batches with a kill are placed between ordinary ones. The first batch holds the orders
    that are never answered for; a process of their own sends them.
    """
    batches = _batches(count_fates(orders), seed)
    fates = [(number, fate) for number, batch in enumerate(batches) for fate in batch]
    return [_order(place, *one, seed) for place, one in enumerate(fates, 1)]


def _batches(counts: Mapping[Fate, int], seed: int) -> list[list[Fate]]:
    special = (*_FATAL, Fate.NEVER_ANSWERED)
    kinds = [fate for fate, count in counts.items() if fate not in special for _ in range(count)]
    places = sorted(range(len(kinds)), key=lambda place: _draw(seed, "place", place))
    ordinary = [kinds[place] for place in places]
    batches = [[Fate.NEVER_ANSWERED] * counts[Fate.NEVER_ANSWERED]]
    for kill in range(KILLS):
        batches.append(ordinary[kill :: KILLS + 1])
        batches.append([fate for fate in _FATAL for _ in range(kill, counts[fate], KILLS)])
    batches.append(ordinary[KILLS :: KILLS + 1])
    return batches


def _order(place: int, batch: int, fate: Fate, seed: int) -> Order:
    order_id = f"order-{place:04d}"
    content = {
        "order_id": order_id,
        "customer": _CUSTOMERS[_draw(seed, "customer", place) % len(_CUSTOMERS)],
        "amount_cents": 100 + _draw(seed, "amount", place) % 100_000,
    }
    topic = REAL_TOPICS[_draw(seed, "topic", place) % len(REAL_TOPICS)]
    return Order(order_id, fate, topic, json.dumps(content, ensure_ascii=False).encode(), batch)


def _draw(seed: int, purpose: str, place: int) -> int:
    """Return a number that depends only on the arguments, not on the Python version."""
    return int.from_bytes(hashlib.sha256(f"{seed} {purpose} {place}".encode()).digest()[:8])
