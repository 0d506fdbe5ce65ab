"""The order service's database and listener: fates happen, and check answers are true."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from checkback.client import LocalTransactionState, Message, MessageExt
from checkback.demo.fates import Fate, Order, plan_orders
from checkback.demo.order_service import OrderListener, OrderService
from checkback.demo.orders import OrderDatabase, OrderStatus

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOWN = LocalTransactionState.UNKNOW

ORDERS = plan_orders(30, seed=1)
END_OF_TIME_MS = 2**62


class DiedError(Exception):
    pass


def die() -> None:
    raise DiedError


@pytest.fixture
def database(tmp_path: Path) -> OrderDatabase:
    found = OrderDatabase(tmp_path / "orders.sqlite")
    found.create(ORDERS)
    return found


@pytest.fixture
def listener(database: OrderDatabase) -> OrderListener:
    return OrderListener(database, die, lambda _: None)


def order_of(fate: Fate) -> Order:
    return next(order for order in ORDERS if order.fate is fate)


def execute(listener: OrderListener, order: Order) -> LocalTransactionState:
    message = Message(order.topic, order.body, keys=order.order_id)
    return listener.execute_local_transaction(message, order)


def check(listener: OrderListener, order: Order) -> LocalTransactionState:
    return listener.check_local_transaction(
        MessageExt(order.topic, order.body, keys=order.order_id)
    )


def status_of(database: OrderDatabase, order: Order) -> OrderStatus | None:
    return next(one.status for one in database.truths() if one.order == order)


@pytest.mark.parametrize(
    ("fate", "op", "status", "answer"),
    [
        (Fate.COMMITTED, COMMIT, OrderStatus.PAID, COMMIT),
        (Fate.ROLLED_BACK, ROLLBACK, None, ROLLBACK),
        (Fate.UNKNOWN_THEN_COMMITTED, UNKNOWN, OrderStatus.OPEN, UNKNOWN),
        (Fate.UNKNOWN_THEN_ROLLED_BACK, UNKNOWN, OrderStatus.OPEN, UNKNOWN),
    ],
)
def test_an_order_that_outlives_its_local_transaction(
    listener: OrderListener,
    database: OrderDatabase,
    fate: Fate,
    op: LocalTransactionState,
    status: OrderStatus | None,
    answer: LocalTransactionState,
) -> None:
    order = order_of(fate)

    assert execute(listener, order) is op
    assert status_of(database, order) is status
    assert check(listener, order) is answer


@pytest.mark.parametrize(
    ("fate", "status", "answer"),
    [
        (Fate.KILLED_BEFORE_OP_COMMITTED, OrderStatus.PAID, COMMIT),
        (Fate.KILLED_BEFORE_LOCAL, None, ROLLBACK),
        (Fate.NEVER_ANSWERED, None, ROLLBACK),
    ],
)
def test_an_order_whose_process_dies(
    listener: OrderListener,
    database: OrderDatabase,
    fate: Fate,
    status: OrderStatus | None,
    answer: LocalTransactionState,
) -> None:
    order = order_of(fate)

    with pytest.raises(DiedError):
        execute(listener, order)
    assert status_of(database, order) is status
    assert check(listener, order) is answer


@pytest.mark.parametrize(
    ("fate", "answer"),
    [(Fate.UNKNOWN_THEN_COMMITTED, COMMIT), (Fate.UNKNOWN_THEN_ROLLED_BACK, ROLLBACK)],
)
def test_a_check_hears_how_an_open_payment_ended(
    listener: OrderListener, database: OrderDatabase, fate: Fate, answer: LocalTransactionState
) -> None:
    order = order_of(fate)
    execute(listener, order)

    assert database.settle_open(END_OF_TIME_MS) == 0, "nobody has asked yet"
    assert check(listener, order) is UNKNOWN
    assert database.settle_open(asked_before_ms=0) == 0, "asked later than that"
    assert database.settle_open(END_OF_TIME_MS) == 1
    assert check(listener, order) is answer


def test_a_local_transaction_that_is_slower_than_its_check_can_not_commit(
    listener: OrderListener, database: OrderDatabase
) -> None:
    order = order_of(Fate.COMMITTED)

    assert check(listener, order) is ROLLBACK
    assert execute(listener, order) is ROLLBACK
    assert status_of(database, order) is OrderStatus.REFUSED


def test_a_fatal_batch_dies_once_each_of_its_orders_is_open(
    database: OrderDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    deaths: list[int] = []
    monkeypatch.setattr("os.kill", lambda *_: deaths.append(len(opened)))
    service = OrderService(database, never_answered=True)

    class Producer:
        def send_message_in_transaction(self, *_: Any, **__: Any) -> None:
            opened.append(1)
            service.die()

    batch = database.take_batch(never_answered=True)
    service._send_batch(cast("Any", Producer()), batch)

    assert deaths == [len(batch)] * len(batch)
