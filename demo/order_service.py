"""The order service: ``python -m checkback.demo.order_service``.

A producer process like an application's. It reports on standard output, one JSON object per line.
It kills itself if an order's fate demands it. Started again on the same database, it continues with
the next batch and answers checks for the orders of the killed process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from checkback.client import (
    LocalTransactionState,
    Message,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.client.message import MessageExt
from checkback.demo.fates import Fate, Order
from checkback.demo.orders import (
    OrderDatabase,
    OrderExistsError,
    OrderStatus,
    insert_order,
)
from checkback.protocol.errors import SendError

ANSWERS: Final[Mapping[OrderStatus, LocalTransactionState]] = {
    OrderStatus.OPEN: LocalTransactionState.UNKNOW,
    OrderStatus.PAID: LocalTransactionState.COMMIT_MESSAGE,
    OrderStatus.REFUSED: LocalTransactionState.ROLLBACK_MESSAGE,
}
"""The answer to a check by the order's status in the database."""


class CardDeclinedError(Exception):
    """The payment failed at once, so the order's database transaction is undone."""


class OrderListener(TransactionListener):
    """Runs the local transaction of an order's fate, and answers checks from the database."""

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
        """Do what the order's fate demands."""
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


ORDERS_PER_S: Final = 40.0
THREADS: Final = 4
PAYMENT_MS: Final = 300
"""Time from an open order's first check to its payment; shorter than the time to the next check."""
PAYMENT_POLL_S: Final = 0.25
DEATH_WAIT_S: Final = 15.0
SEND_TIMEOUT_MS: Final = 10_000
"""Long, because a busy machine must not lose a half that the demo expects."""
CHECK_THREADS: Final = 4


def say(event: str, **fields: object) -> None:
    """Report to the demo, in one write, so that lines of several threads stay whole."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class OrderService:
    """Sends the orders that wait in the database, and answers checks."""

    def __init__(self, database: OrderDatabase, *, never_answered: bool) -> None:
        self._database = database
        self._never_answered = never_answered
        self._deathbed: threading.Barrier | None = None
        self.stopping = threading.Event()
        self.listener = OrderListener(database, self.die, self._answered)

    def run(self, producer: TransactionMQProducer) -> None:
        """Send all waiting orders, then answer checks until SIGTERM."""
        provider = threading.Thread(target=self._hear_payment_provider, daemon=True)
        provider.start()
        while not self.stopping.is_set():
            batch = self._database.take_batch(never_answered=self._never_answered)
            if not batch:
                break
            self._send_batch(producer, batch)
        say("all_sent")
        self.stopping.wait()
        provider.join()

    def die(self) -> None:
        """Kill the process if the batch is fatal, once all its orders are open or time is up."""
        if self._deathbed is not None:
            with suppress(threading.BrokenBarrierError):
                self._deathbed.wait(DEATH_WAIT_S)
            os.kill(os.getpid(), signal.SIGKILL)

    def _send_batch(self, producer: TransactionMQProducer, batch: Sequence[Order]) -> None:
        is_fatal = any(order.is_fatal or order.fate is Fate.NEVER_ANSWERED for order in batch)
        self._deathbed = threading.Barrier(len(batch)) if is_fatal else None
        say("fatal_batch" if is_fatal else "batch", orders=len(batch))
        with ThreadPoolExecutor(len(batch) if is_fatal else THREADS) as pool:
            for order in batch:
                pool.submit(self._send, producer, order)
                time.sleep(0.0 if is_fatal else 1.0 / ORDERS_PER_S)

    def _send(self, producer: TransactionMQProducer, order: Order) -> None:
        message = Message(order.topic, order.body, keys=order.order_id)
        try:
            producer.send_message_in_transaction(message, arg=order)
        except SendError as error:
            say("send_failed", order_id=order.order_id, error=str(error))

    def _answered(self, state: LocalTransactionState) -> None:
        say("check_answered", answer=state.name)

    def _hear_payment_provider(self) -> None:
        while not self.stopping.wait(PAYMENT_POLL_S):
            settled = self._database.settle_open(time.time_ns() // 1_000_000 - PAYMENT_MS)
            if settled:
                say("payments_settled", orders=settled)


@click.command()
@click.option("--bootstrap-servers", required=True)
@click.option("--database", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--group", required=True, help="Producer group.")
@click.option("--never-answered", is_flag=True, help="Send the orders that are never answered for.")
def main(
    bootstrap_servers: str,
    database: Path,
    group: str,
    never_answered: bool,
) -> None:
    """Run the order service until SIGTERM or until an order's fate kills it."""
    service = OrderService(OrderDatabase(database), never_answered=never_answered)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stopping.set())
    producer = TransactionMQProducer(
        group,
        bootstrap_servers=bootstrap_servers,
        transaction_listener=service.listener,
        instance_name=group,  # stable: its successor answers checks at once
        send_msg_timeout_ms=SEND_TIMEOUT_MS,
        check_thread_pool_max_size=CHECK_THREADS,
    )
    producer.start()
    say("ready", pid=os.getpid())
    service.run(producer)
    producer.shutdown()
    say("stopped")


if __name__ == "__main__":
    main()
