"""The order service's side of the protocol: its local transaction, and its answers to checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from checkback.client import LocalTransactionState, Message, TransactionListener
from checkback.client.message import MessageExt
from checkback.deploy.demo.database import (
    OrderDatabase,
    OrderExistsError,
    OrderStatus,
    insert_order,
)
from checkback.deploy.demo.fates import Fate, Order

ANSWERS: Final[Mapping[OrderStatus, LocalTransactionState]] = {
    OrderStatus.OPEN: LocalTransactionState.UNKNOW,
    OrderStatus.PAID: LocalTransactionState.COMMIT_MESSAGE,
    OrderStatus.REFUSED: LocalTransactionState.ROLLBACK_MESSAGE,
}
"""What the database says, as the answer to a check."""


class CardDeclinedError(Exception):
    """The payment failed at once, so the order's database transaction is undone."""


class OrderListener(TransactionListener):
    """Runs the local transaction that an order's fate asks for, and answers from the database.

    Args:
        database: the service's.
        die: ends the process; called where a fate says so.
        answered: told each answer to a check.
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
        """Do with the order what its fate says.

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
        """Answer what the database says, whichever process it was that placed the order."""
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
