"""The fates of the demo's orders, planned from a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checkback.protocol.errors import UsageError


class Ending(StrEnum):
    """The end that an order's transaction has to have."""

    FINAL = "final"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"


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
        return _LABELS[self]

    @property
    def ending(self) -> Ending:
        """The end that the transaction has to have."""
        return _ENDINGS[self]


_LABELS: Final[Mapping[Fate, str]] = {
    Fate.COMMITTED: "committed at once",
    Fate.ROLLED_BACK: "rolled back at once",
    Fate.UNKNOWN_THEN_COMMITTED: "unknown, committed",
    Fate.UNKNOWN_THEN_ROLLED_BACK: "unknown, rolled back",
    Fate.KILLED_BEFORE_OP_COMMITTED: "killed after commit",
    Fate.KILLED_BEFORE_LOCAL: "killed before commit",
    Fate.NEVER_ANSWERED: "never answered",
}
_ENDINGS: Final[Mapping[Fate, Ending]] = {
    Fate.COMMITTED: Ending.FINAL,
    Fate.ROLLED_BACK: Ending.ROLLED_BACK,
    Fate.UNKNOWN_THEN_COMMITTED: Ending.FINAL,
    Fate.UNKNOWN_THEN_ROLLED_BACK: Ending.ROLLED_BACK,
    Fate.KILLED_BEFORE_OP_COMMITTED: Ending.FINAL,
    Fate.KILLED_BEFORE_LOCAL: Ending.ROLLED_BACK,
    Fate.NEVER_ANSWERED: Ending.DISCARDED,
}

ORDERS_MIN: Final = 30
PER_FATE_MIN: Final = 3
KILLS: Final = 3
"""How often the order service is killed and started again."""

_PERCENT: Final[Mapping[Fate, int]] = {
    Fate.ROLLED_BACK: 15,
    Fate.UNKNOWN_THEN_COMMITTED: 10,
    Fate.UNKNOWN_THEN_ROLLED_BACK: 7,
    Fate.KILLED_BEFORE_OP_COMMITTED: 8,
    Fate.KILLED_BEFORE_LOCAL: 5,
    Fate.NEVER_ANSWERED: 4,
}
"""Percentage of each fate; all other orders are committed at once."""
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
    """Return how many orders get each fate: several of each, most of them committed at once.

    Raises:
        UsageError: too few to show every fate.
    """
    if orders < ORDERS_MIN:
        raise UsageError(
            f"{orders} orders are too few to show every fate.",
            remedy=f"Use --orders {ORDERS_MIN} or more.",
            orders=orders,
        )
    counts = {
        fate: max(PER_FATE_MIN, orders * percent // 100) for fate, percent in _PERCENT.items()
    }
    return {Fate.COMMITTED: orders - sum(counts.values()), **counts}


def plan_orders(orders: int, seed: int) -> list[Order]:
    """Return the orders in the order of sending; the same seed gives the same orders.

    Batches with a kill are placed between ordinary ones. The first batch holds the orders
    that are never answered for; a process of their own sends them.

    Raises:
        UsageError: too few to show every fate.
    """
    batches = _batches(count_fates(orders), seed)
    fates = [(number, fate) for number, batch in enumerate(batches) for fate in batch]
    return [
        _order(place, fate, number, seed) for place, (number, fate) in enumerate(fates, start=1)
    ]


def _batches(counts: Mapping[Fate, int], seed: int) -> list[list[Fate]]:
    ordinary = _shuffled(_ordinary_fates(counts), seed)
    batches = [[Fate.NEVER_ANSWERED] * counts[Fate.NEVER_ANSWERED]]
    for kill in range(KILLS):
        batches.append(ordinary[kill :: KILLS + 1])
        batches.append([fate for fate in _FATAL for _ in range(kill, counts[fate], KILLS)])
    batches.append(ordinary[KILLS :: KILLS + 1])
    return batches


def _ordinary_fates(counts: Mapping[Fate, int]) -> list[Fate]:
    special = (*_FATAL, Fate.NEVER_ANSWERED)
    return [fate for fate, count in counts.items() if fate not in special for _ in range(count)]


def _shuffled(fates: Sequence[Fate], seed: int) -> list[Fate]:
    places = sorted(range(len(fates)), key=lambda place: _draw(seed, "place", place))
    return [fates[place] for place in places]


def _order(place: int, fate: Fate, batch: int, seed: int) -> Order:
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
