"""A service whose POST /orders books an order and announces it, or does neither.

    pip install 'checkback[sql]' fastapi uvicorn
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 uvicorn fastapi_service:app

Every process of the service answers checks, also for orders that another one, now dead, took in.

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, insert

from checkback.client import LocalTransactionState, Message, TransactionMQProducer
from checkback.client.sql import SqlTransactionLog
from checkback.protocol.errors import SendError

orders = Table(
    "orders", MetaData(), Column("id", Integer, primary_key=True), Column("amount", Integer)
)
engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///orders.db"))


def book(connection: Connection, message: Message, arg: Any) -> None:  # noqa: ARG001
    """Write the order; what this raises rolls it back."""
    connection.execute(insert(orders).values(arg))


log = SqlTransactionLog(engine, book)
producer = TransactionMQProducer(
    "order-service",
    bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
    topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
    transaction_listener=log,
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Start the producer with the service; it is made before a fork, but started after it."""
    orders.metadata.create_all(engine)
    log.create_table()
    with producer:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
def create_order(amount: int) -> dict[str, str]:
    """Book an order and announce it. 503: neither happened, or a check settles the doubt."""
    message = Message("paid", f"paid {amount}".encode())
    try:
        result = producer.send_message_in_transaction(message, {"amount": amount})
    except SendError as error:
        raise HTTPException(503, str(error)) from error
    if result.local_transaction_state is not LocalTransactionState.COMMIT_MESSAGE:
        raise HTTPException(503, "The order was not booked, or is not yet known to be.")
    return {"transaction_id": result.transaction_id}
