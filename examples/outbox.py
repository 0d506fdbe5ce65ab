"""Orders in a database: row and message both happen, or neither, whatever dies in between.

    pip install 'checkback[sql]'
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 python outbox.py

Kill it anywhere and start it again: a check finds in the database how each order ended.

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, insert

from checkback.client import Message, TransactionMQProducer
from checkback.client.sql import SqlTransactionLog

orders = Table(
    "orders", MetaData(), Column("id", Integer, primary_key=True), Column("amount", Integer)
)


def book(connection: Connection, message: Message, arg: Any) -> None:  # noqa: ARG001
    """Write the order; an exception rolls it back."""
    connection.execute(insert(orders).values(arg))


def main() -> None:
    """Book three orders."""
    engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///orders.db"))
    orders.metadata.create_all(engine)
    log = SqlTransactionLog(engine, book)
    log.create_table()
    with TransactionMQProducer(
        "orders",
        bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
        topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
        transaction_listener=log,
    ) as producer:
        for amount in (10, 20, 30):
            message = Message("paid", f"paid {amount}".encode())
            result = producer.send_message_in_transaction(message, {"amount": amount})
            print(amount, result.local_transaction_state.name)


if __name__ == "__main__":
    main()
