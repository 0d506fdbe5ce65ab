"""Orders in a database, each announced by two messages: all of it happens, or nothing.

    pip install 'checkback[sql]'
    CHECKBACK_BOOTSTRAP_SERVERS=localhost:9092 python orders_script.py 10 20 30

Kill it anywhere and start it again: what was committed is announced, nothing else is.

The topics have to be there: `checkback topics create --real-topic paid` makes them.
"""

from __future__ import annotations

import os
import sys

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


def place(amount: int) -> None:
    """Book an order and announce it."""
    with Session(engine) as session, session.begin():
        order = Order(amount=amount)
        session.add(order)
        session.flush()
        key = f"order-{order.id}"
        producer.send("paid", {"order": order.id, "amount": amount}, key, session=session)
        producer.send("paid", f"audit of {key}", key, session=session)
    print("booked", amount, flush=True)


if __name__ == "__main__":
    Base.metadata.create_all(engine)
    producer.create_table()
    for given in sys.argv[1:] or ["10", "20", "30"]:
        place(int(given))
