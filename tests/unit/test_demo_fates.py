"""The demo's plan shows every fate, and is the same for the same seed."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from checkback.demo.fates import (
    KILLS,
    ORDERS_MIN,
    PER_FATE_MIN,
    Fate,
    count_fates,
    plan_orders,
)


@pytest.mark.parametrize("orders", [ORDERS_MIN, 31, 100, 300, 1_001])
def test_every_order_has_a_fate_and_every_fate_several_orders(orders: int) -> None:
    counts = Counter(order.fate for order in plan_orders(orders, seed=1))

    assert sum(counts.values()) == orders
    assert set(counts) == set(Fate)
    assert min(counts.values()) >= PER_FATE_MIN
    assert counts == count_fates(orders)


def test_the_plan_of_a_seed_does_not_change_between_versions() -> None:
    told = [(one.order_id, one.fate.value, one.topic, one.body) for one in plan_orders(40, seed=1)]

    assert hashlib.sha256(repr(told).encode()).hexdigest()[:16] == "94ae31066149ff1a"


def test_the_process_is_killed_several_times_with_every_kind_of_fatal_orders_open() -> None:
    batches: dict[int, set[Fate]] = {}
    for order in plan_orders(ORDERS_MIN, seed=1):
        batches.setdefault(order.batch, set()).add(order.fate)
    fatal = [fates for fates in batches.values() if Fate.KILLED_BEFORE_LOCAL in fates]

    assert len(fatal) == KILLS >= 2
    every = {Fate.KILLED_BEFORE_LOCAL, Fate.KILLED_BEFORE_OP_COMMITTED}
    assert all(fates == every for fates in fatal)
