"""The order service's side of the protocol: its local transaction, and its answers to checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from checkback.client import LocalTransactionState, Message, TransactionListener
from checkback.client.message import MessageExt
from checkback.demo.database import (
    OrderDatabase,
    OrderExistsError,
    OrderStatus,
    insert_order,
)
from checkback.demo.fates import Fate, Order

ANSWERS: Final[Mapping[OrderStatus, LocalTransactionState]] = {
    OrderStatus.OPEN: LocalTransactionState.UNKNOW,
    OrderStatus.PAID: LocalTransactionState.COMMIT_MESSAGE,
    OrderStatus.REFUSED: LocalTransactionState.ROLLBACK_MESSAGE,
}
"""The answer to a check by the order's status in the database."""


class CardDeclinedError(Exception):
    """The payment failed at once, so the order's database transaction is undone."""


class OrderListener(TransactionListener):
    """Runs the local transaction of an order's fate, and answers checks from the database.

    Args:
        database: the service's database.
        die: kills the process; called if a fate demands it.
        answered: called with each answer to a check.
    """

    def __init__(
        self,
        database: OrderDatabase,
        die: Callable[[], None],
        answered: Callable[[LocalTransactionState], None],
    ) -> None:
        self._database = database
        self._die = die
        self._answered = answered
        self._local: Mapping[Fate, Callable[[Order], LocalTransactionState]] = {
            Fate.COMMITTED: self._pay,
            Fate.ROLLED_BACK: self._pay_by_declined_card,
            Fate.UNKNOWN_THEN_COMMITTED: self._ask_for_payment,
            Fate.UNKNOWN_THEN_ROLLED_BACK: self._ask_for_payment,
            Fate.KILLED_BEFORE_OP_COMMITTED: self._pay_and_die,
            Fate.KILLED_BEFORE_LOCAL: self._just_die,
            Fate.NEVER_ANSWERED: self._just_die,
        }

    def execute_local_transaction(
        self,
        message: Message,  # noqa: ARG002 - the order holds all of it
        arg: Any,
    ) -> LocalTransactionState:
        """Do what the order's fate demands.

        Args:
            message: the half message.
            arg: the order.
        """
        order: Order = arg
        try:
            return self._local[order.fate](order)
        except (OrderExistsError, CardDeclinedError):
            return LocalTransactionState.ROLLBACK_MESSAGE

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Answer from the database, no matter which process placed the order."""
        now_ms = time.time_ns() // 1_000_000
        state = ANSWERS[self._database.answer_check(message.keys, now_ms)]
        self._answered(state)
        return state

    def _pay(self, order: Order) -> LocalTransactionState:
        self._database.place(order, OrderStatus.PAID)
        return LocalTransactionState.COMMIT_MESSAGE

    def _pay_by_declined_card(self, order: Order) -> LocalTransactionState:
        with self._database.transaction() as connection:
            insert_order(connection, order, OrderStatus.PAID)
            raise CardDeclinedError

    def _ask_for_payment(self, order: Order) -> LocalTransactionState:
        self._database.place(order, OrderStatus.OPEN)
        return LocalTransactionState.UNKNOW

    def _pay_and_die(self, order: Order) -> LocalTransactionState:
        self._database.place(order, OrderStatus.PAID)
        return self._just_die(order)

    def _just_die(self, order: Order) -> LocalTransactionState:
        self._die()
        raise AssertionError(f"outlived its own death at {order.order_id}")
