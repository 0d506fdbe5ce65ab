"""The order service's database: the planned orders, and what became of them.

The table ``orders`` is the truth: the service answers checks from it, and the audit compares with
it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from checkback.demo.fates import Fate, Order

_SCHEMA: Final = """
CREATE TABLE incoming (
    order_id TEXT PRIMARY KEY, fate TEXT NOT NULL, topic TEXT NOT NULL, body BLOB NOT NULL,
    batch INTEGER NOT NULL, taken INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, status TEXT NOT NULL, body BLOB, asked_at_ms INTEGER
) STRICT;
"""
_BUSY_TIMEOUT_S: Final = 10.0


class OrderStatus(StrEnum):
    """The status of an order in the database."""

    OPEN = "open"
    PAID = "paid"
    REFUSED = "refused"


class OrderExistsError(Exception):
    """A check closed the order first; the local transaction is too late."""


@dataclass(frozen=True, slots=True)
class OrderTruth:
    """An order and what became of it locally."""

    order: Order
    status: OrderStatus | None

    @property
    def is_committed(self) -> bool:
        """Whether its message has to be on the real topic."""
        return self.status is OrderStatus.PAID


class OrderDatabase:
    """Orders in SQLite; several threads and processes may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, orders: Sequence[Order]) -> None:
        """Create the tables and insert the planned orders."""
        rows = [
            (order.order_id, order.fate, order.topic, order.body, order.batch) for order in orders
        ]
        with closing(self._connect()) as connection:
            # Readers and the writer of several processes do not wait for each other.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
        with self.transaction() as connection:
            connection.executemany(
                "INSERT INTO incoming (order_id, fate, topic, body, batch) VALUES (?, ?, ?, ?, ?)",
                rows,
            )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a database transaction: committed at the end of the block, undone by an error."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def take_batch(self, *, never_answered: bool) -> list[Order]:
        """Return the next batch that no process has taken yet, empty if there is none."""
        with self.transaction() as connection:
            rows = connection.execute(
                "UPDATE incoming SET taken = 1 WHERE batch = (SELECT min(batch) FROM incoming "
                "WHERE taken = 0 AND (fate = ?) = ?) "
                "RETURNING order_id, fate, topic, body, batch",
                (Fate.NEVER_ANSWERED, never_answered),
            ).fetchall()
        return sorted((_order(row) for row in rows), key=lambda order: order.order_id)

    def place(self, order: Order, status: OrderStatus) -> None:
        """Insert the order in a transaction of its own."""
        with self.transaction() as connection:
            insert_order(connection, order, status)

    def settle_open(self, asked_before_ms: int) -> int:
        """Settle open orders as the payment provider says.

        Args:
            asked_before_ms: settle only orders that a check found open before this time, in
                milliseconds since 1970; so each of them was answered with UNKNOW once.

        Returns:
            The number of settled orders.
        """
        with self.transaction() as connection:
            return connection.execute(
                "UPDATE orders SET status = (SELECT CASE fate WHEN ? THEN ? ELSE ? END "
                "FROM incoming WHERE incoming.order_id = orders.order_id) "
                "WHERE status = ? AND asked_at_ms < ?",
                (
                    Fate.UNKNOWN_THEN_COMMITTED,
                    OrderStatus.PAID,
                    OrderStatus.REFUSED,
                    OrderStatus.OPEN,
                    asked_before_ms,
                ),
            ).rowcount

    def answer_check(self, order_id: str, now_ms: int) -> OrderStatus:
        """Return an order's status; close an order that is not there.

        The row of a closed order makes a slow local transaction fail, so it can't commit after its
        check was answered with rollback.
        """
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO orders (order_id, status) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (order_id, OrderStatus.REFUSED),
            )
            found = connection.execute(
                "UPDATE orders SET asked_at_ms = ifnull(asked_at_ms, ?) WHERE order_id = ? "
                "RETURNING status",
                (now_ms, order_id),
            ).fetchone()
        return OrderStatus(found[0])

    def truths(self) -> list[OrderTruth]:
        """Return every planned order and what became of it."""
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "SELECT order_id, fate, topic, incoming.body, batch, status "
                "FROM incoming LEFT JOIN orders USING (order_id) ORDER BY order_id"
            ).fetchall()
        return [
            OrderTruth(_order(row[:5]), None if row[5] is None else OrderStatus(row[5]))
            for row in rows
        ]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)


def insert_order(connection: sqlite3.Connection, order: Order, status: OrderStatus) -> None:
    """Insert the order inside a running transaction."""
    try:
        connection.execute(
            "INSERT INTO orders (order_id, status, body) VALUES (?, ?, ?)",
            (order.order_id, status, order.body),
        )
    except sqlite3.IntegrityError as error:
        raise OrderExistsError(order.order_id) from error


def _order(row: tuple[str, str, str, bytes, int]) -> Order:
    order_id, fate, topic, body, batch = row
    return Order(order_id, Fate(fate), topic, body, batch)
