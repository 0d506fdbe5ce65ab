"""The order service: what the demo's own run can not show (tests/integration/test_demo.py)."""

from __future__ import annotations

from pathlib import Path

from checkback.client import LocalTransactionState, MessageExt
from checkback.demo.fates import Fate, plan_orders
from checkback.demo.order_service import OrderListener
from checkback.demo.orders import OrderDatabase, OrderStatus

ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE


def test_a_local_transaction_that_is_slower_than_its_check_can_not_commit(tmp_path: Path) -> None:
    orders = plan_orders(30, seed=1)
    order = next(one for one in orders if one.fate is Fate.COMMITTED)
    database = OrderDatabase(tmp_path / "orders.sqlite")
    database.create(orders)
    listener = OrderListener(database, lambda: None, lambda _: None)
    message = MessageExt(order.topic, order.body, keys=order.order_id)

    assert listener.check_local_transaction(message) is ROLLBACK
    assert listener.execute_local_transaction(message, order) is ROLLBACK
    [status] = [one.status for one in database.truths() if one.order == order]
    assert status is OrderStatus.REFUSED
