"""The demo's audit finds every kind of planted fault, and nothing without a fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkback.demo.audit import Evidence, FindingKind, SeenRecord, audit
from checkback.demo.fates import Fate, plan_orders
from checkback.demo.orders import OrderStatus, OrderTruth

STATUS_BY_FATE = {
    Fate.COMMITTED: OrderStatus.PAID,
    Fate.ROLLED_BACK: None,
    Fate.UNKNOWN_THEN_COMMITTED: OrderStatus.PAID,
    Fate.UNKNOWN_THEN_ROLLED_BACK: OrderStatus.REFUSED,
    Fate.KILLED_BEFORE_OP_COMMITTED: OrderStatus.PAID,
    Fate.KILLED_BEFORE_LOCAL: OrderStatus.REFUSED,
    Fate.NEVER_ANSWERED: None,
}
ORDERS = plan_orders(30, seed=1)
TRUTHS = [OrderTruth(order, STATUS_BY_FATE[order.fate]) for order in ORDERS]


def seen(order_id: str, topic: str = "") -> SeenRecord:
    order = next(order for order in ORDERS if order.order_id == order_id)
    return SeenRecord(topic or order.topic, order_id, order.body)


def of_fate(fate: Fate) -> str:
    return next(order.order_id for order in ORDERS if order.fate is fate)


PAID, ROLLED_BACK = of_fate(Fate.COMMITTED), of_fate(Fate.ROLLED_BACK)
NEVER = of_fate(Fate.NEVER_ANSWERED)
RIGHT = Evidence(
    halves=[seen(truth.order.order_id, "half") for truth in TRUTHS],
    finals=[seen(truth.order.order_id) for truth in TRUTHS if truth.is_committed],
    discarded=[
        seen(order.order_id, "discarded") for order in ORDERS if order.fate is Fate.NEVER_ANSWERED
    ],
    check_requests={NEVER: 5, PAID: 1},
    check_answers={PAID: 1},
)


def found(evidence: Evidence) -> list[tuple[FindingKind, str]]:
    return [(finding.kind, finding.order_id) for finding in audit(TRUTHS, evidence)]


def without(records: object, order_id: str) -> list[SeenRecord]:
    assert isinstance(records, list)
    return [record for record in records if record.order_id != order_id]


def test_nothing_is_found_where_all_is_right() -> None:
    assert audit(TRUTHS, RIGHT) == []


NOT_COMMITTED = [
    of_fate(fate) for fate, status in STATUS_BY_FATE.items() if status is not OrderStatus.PAID
]
CHANGED = replace(seen(PAID), body=seen(PAID).body + b" ")
ELSEWHERE = SeenRecord("orders.elsewhere", PAID, seen(PAID).body)
STRANGER = SeenRecord("orders.retail", "order-9999", b"{}")
OTHERS = without(RIGHT.finals, PAID)


MISSING, WRONGLY_THERE = FindingKind.MISSING, FindingKind.WRONGLY_THERE


@pytest.mark.parametrize(
    ("changes", "findings"),
    [
        ({"finals": OTHERS}, [(MISSING, PAID)]),
        ({"finals": [*RIGHT.finals, seen(PAID)]}, [(WRONGLY_THERE, PAID)]),
        *(({"finals": [*RIGHT.finals, seen(one)]}, [(WRONGLY_THERE, one)])
          for one in NOT_COMMITTED),
        ({"finals": [*OTHERS, ELSEWHERE]}, [(MISSING, PAID), (WRONGLY_THERE, PAID)]),
        ({"finals": [*OTHERS, CHANGED]}, [(MISSING, PAID), (WRONGLY_THERE, PAID)]),
        ({"finals": [*RIGHT.finals, STRANGER]}, [(WRONGLY_THERE, "order-9999")]),
        ({"discarded": without(RIGHT.discarded, NEVER)}, [(MISSING, NEVER)]),
        ({"discarded": [*RIGHT.discarded, seen(NEVER)]}, [(WRONGLY_THERE, NEVER)]),
        ({"discarded": [*RIGHT.discarded, seen(ROLLED_BACK)]}, [(WRONGLY_THERE, ROLLED_BACK)]),
        ({"halves": without(RIGHT.halves, ROLLED_BACK)}, [(MISSING, ROLLED_BACK)]),
        ({"halves": [*RIGHT.halves, seen(PAID)]}, []),
    ],
)  # fmt: skip
def test_each_fault_is_found_and_nothing_else(
    changes: dict[str, Any], findings: list[tuple[FindingKind, str]]
) -> None:
    assert found(replace(RIGHT, **changes)) == findings


def test_every_refused_record_is_found_with_its_reason() -> None:
    refused = SeenRecord("refused", "", b"", "the op has no PGROUP")

    (finding,) = audit(TRUTHS, replace(RIGHT, refused=[refused]))

    assert finding.kind is FindingKind.REFUSED
    assert "the op has no PGROUP" in finding.text
