"""A FastAPI service in asyncio: POST /orders books an order and announces it, or does neither.

    pip install 'checkback[sql]' fastapi uvicorn aiosqlite
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 uvicorn fastapi_async_service:app

Every process of the service answers checks, also for orders of a process that died.

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from checkback.client import Producer


class Base(DeclarativeBase):
    """The tables."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int]


engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///orders.db"))
producer = Producer(
    "order-service",
    bootstrap_servers=os.environ["CHECKBACK_BOOTSTRAP_SERVERS"],
    topic_prefix=os.environ.get("CHECKBACK_TOPIC_PREFIX", ""),
    database=engine,
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Open the producer with the service, and close it with the service."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    producer.create_table()
    async with producer:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def create_order(amount: int) -> dict[str, str | int]:
    """Book an order and announce it."""
    async with AsyncSession(engine) as session, session.begin():
        order = Order(amount=amount)
        session.add(order)
        await session.flush()
        paid = {"order": order.id, "amount": amount}
        sent = producer.send("paid", paid, key=f"order-{order.id}", session=session)
    return {"order": paid["order"], "transaction_id": sent.transaction_id}
