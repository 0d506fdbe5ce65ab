"""A FastAPI service: POST /orders books an order and announces it, or does neither.

    pip install 'checkback[sql]' fastapi uvicorn
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 uvicorn fastapi_service:app

Every process of the service answers checks, also for orders of a process that died.

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from checkback.client import Producer


class Base(DeclarativeBase):
    """The tables."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int]


engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///orders.db"))
producer = Producer(
    "order-service",
    bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
    topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
    database=engine,
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the producer with the service, and close it with the service."""
    Base.metadata.create_all(engine)
    producer.create_table()
    async with producer:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
def create_order(amount: int) -> dict[str, str | int]:
    """Book an order and announce it."""
    with Session(engine) as session, session.begin():
        order = Order(amount=amount)
        session.add(order)
        session.flush()
        paid = {"order": order.id, "amount": amount}
        sent = producer.send("paid", paid, key=f"order-{order.id}", session=session)
    return {"order": paid["order"], "transaction_id": sent.transaction_id}
