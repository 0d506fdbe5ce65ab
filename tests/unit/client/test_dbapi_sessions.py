"""Messages in the transactions of plain DB-API connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from sqlalchemy import Engine
from tests.unit.client.producer_playing import Clients, kafka
from tests.unit.client.test_sessions import COMMIT, HASTY, ROLLBACK, engine, numbers, ops, producer

from checkback.client import Producer
from checkback.client.sessions.dbapi import committing, paramstyle_of
from checkback.protocol.errors import ConfigurationError, SendError
from checkback.testing.waiting import wait_until

__all__ = ["engine", "kafka", "producer"]


@pytest.fixture
def connect(engine: Engine) -> Callable[[], sqlite3.Connection]:
    return lambda: sqlite3.connect(str(engine.url.database), timeout=0.2)


@pytest.mark.parametrize("end", ["commit", "raise", "half lost", "commit lost"])
def test_a_block_encloses_the_transaction_of_a_plain_connection(
    end: str, connect: Any, engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    plain = Producer("h", bootstrap_servers="fake", database=connect, **HASTY)

    class Losing(sqlite3.Connection):
        def commit(self) -> None:
            super().commit()
            raise sqlite3.OperationalError("server closed the connection")

    connection = connect()
    if end == "commit lost":
        connection = sqlite3.connect(str(engine.url.database), factory=Losing)
    plain.open()
    sent: list[Any] = []
    errors = (RuntimeError, SendError, sqlite3.OperationalError)
    with suppress(*errors), plain.transaction(connection) as transaction:
        connection.execute("INSERT INTO orders VALUES (1)")
        sent.append(plain.send("t", b"x", session=transaction))
        sent[0].store(plain._core.perform)
        kafka[-1].halves[0].is_silent = end == "half lost"
        sent.append(plain.send("t", b"x", session=transaction))
        if end == "raise":
            raise RuntimeError
    kafka[-1].halves[0].is_silent = False
    state = {"commit": "commit", "commit lost": "unknown"}.get(end, "rollback")
    wait_until(lambda: ops(kafka)[sent[0].transaction_id] == state)
    assert numbers(engine) == ([1] if "commit" in end else [])
    assert plain.log is not None
    outcome = plain.log.outcome(sent[0].transaction_id)
    assert outcome is (COMMIT if "commit" in end else ROLLBACK)
    plain.close()
    connection.close()


def test_a_class_of_the_application_has_its_drivers_marks(connect: Any) -> None:
    class Own(sqlite3.Connection):
        pass

    assert paramstyle_of(sqlite3.connect(":memory:", factory=Own)) == "qmark"
    assert paramstyle_of(object()) == "format"


def test_a_connection_of_a_pool_of_sqlalchemy_has_its_drivers_marks(engine: Engine) -> None:
    pooled = engine.raw_connection()
    assert paramstyle_of(pooled) == "qmark"
    pooled.close()


class Driver:
    """A connection of a driver that has no isolation level, as MySQL's own."""

    in_transaction = False

    def __init__(self, *, autocommit: bool) -> None:
        self.autocommit = autocommit

    def commit(self) -> None:
        """Commit."""


class AwaitedDriver(Driver):
    async def commit(self) -> None:  # type: ignore[override]
        """Commit."""


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        (Driver(autocommit=False), None),
        (Driver(autocommit=True), "by itself"),
        (AwaitedDriver(autocommit=False), "event loop"),
    ],
)
def test_which_connections_of_drivers_can_have_messages(connection: Any, said: str | None) -> None:
    outcome = pytest.raises(ConfigurationError, match=said) if said else nullcontext()
    with outcome, committing(connection):
        pass


def test_plain_connections_that_can_have_no_messages_are_refused(
    connect: Any, producer: Producer
) -> None:
    plain = Producer("h", bootstrap_servers="fake", database=connect)
    alone = connect()
    alone.isolation_level = None
    refused: dict[str, Callable[[], object]] = {
        "by itself": lambda: plain.transaction(alone).__enter__(),
        "without a database": lambda: plain.transaction().__enter__(),
        "producer.transaction": lambda: plain.send("t", b"x", session=alone),
        "Create it by": plain.create_table,
        "is for Django": plain.atomic,
        "DB-API connections": lambda: producer.transaction(alone).__enter__(),
    }
    for said, given in refused.items():
        with pytest.raises(ConfigurationError, match=said):
            given()
    plain.close()
