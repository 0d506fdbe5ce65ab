"""Runs of ``python -m bench client --database URL``: messages in database transactions.

Each transaction writes one row. Four kinds of run follow each other: without a message, with one by
a listener (`SqlTransactionLog`), with one and with ten in a session.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.orm import Session

from checkback.client import Message, Producer, TransactionMQProducer
from checkback.client.sql import SqlTransactionLog

DATABASE: Final = "database"
LISTENER: Final = "listener"
SESSION: Final = "session"
TEN: Final = "ten in a session"
KINDS: Final = (DATABASE, LISTENER, SESSION, TEN)
INSERT: Final = text("INSERT INTO checkback_bench (id) VALUES (:id)")


@contextmanager
def transaction_of(
    kind: str, url: str, message: Message, threads: int, **connection: Any
) -> Iterator[Callable[[], Any]]:
    """Yield what does one transaction.

    Args:
        kind: one of KINDS.
        url: of the database; it gets tables of its own.
    """
    engine = create_engine(url, pool_size=threads, max_overflow=0)
    with engine.begin() as made:
        made.execute(text("DROP TABLE IF EXISTS checkback_bench"))
        made.execute(text("CREATE TABLE checkback_bench (id BIGINT PRIMARY KEY)"))
    ids = itertools.count()

    def book(made: Connection, *_: Any) -> None:
        # With a session, as in the runs beside it, which the connection's transaction encloses.
        with Session(made) as session:
            session.execute(INSERT, {"id": next(ids)})
            session.commit()

    def run(send: Callable[[Session], Any], times: int) -> None:
        with Session(engine) as session, session.begin():
            session.execute(INSERT, {"id": next(ids)})
            for _ in range(times):
                send(session)

    try:
        if kind == DATABASE:
            yield lambda: run(str, 0)
        elif kind == LISTENER:
            log = SqlTransactionLog(engine, book)
            log.create_table()
            with TransactionMQProducer(
                "checkback-bench", transaction_listener=log, **connection
            ) as producer:
                yield lambda: producer.send_message_in_transaction(message)
        else:
            with Producer("checkback-bench", database=engine, **connection) as joining:
                joining.create_table()
                times = 10 if kind == TEN else 1
                yield lambda: run(
                    lambda session: joining.send(message.topic, message.body, session=session),
                    times,
                )
    finally:
        engine.dispose()
