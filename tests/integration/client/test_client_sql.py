"""The outbox on SQLite and PostgreSQL: a slow commit and a rollback never both win."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    func,
    insert,
    select,
)
from tests.integration.client.playing import Checkback, eventually, header

from checkback.client import LocalTransactionState, Message, MessageExt
from checkback.client.listener import result_of
from checkback.client.sql import SqlTransactionLog
from checkback.protocol import properties as names

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE

orders = Table(
    "orders", MetaData(), Column("id", Integer, primary_key=True), Column("item", String(20))
)


@pytest.fixture(params=["postgresql", pytest.param("sqlite", marks=pytest.mark.nightly)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'orders.db'}"
    else:
        url = request.getfixturevalue("postgres")
    engine = create_engine(url)
    orders.metadata.create_all(engine)
    yield engine
    orders.metadata.drop_all(engine)
    engine.dispose()


def book(connection: Connection, message: Message, arg: Any) -> None:
    connection.execute(insert(orders).values(id=arg, item=(message.body or b"").decode()))


@pytest.fixture
def log(engine: Engine, unique: str) -> SqlTransactionLog:
    made = SqlTransactionLog(engine, book, table_name=f"{unique}log".replace("-", "_"))
    made.create_table()
    made.create_table()  # again: no effect
    return made


def booked(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(orders)).scalar_one()


def half(transaction_id: str) -> Message:
    return Message("paid", b"book", transaction_id=transaction_id)


def request(transaction_id: str) -> MessageExt:
    return MessageExt("paid", b"book", transaction_id=transaction_id)


def test_a_committed_transaction_is_found(engine: Engine, log: SqlTransactionLog) -> None:
    assert log.execute_local_transaction(half("a"), 1) is COMMIT
    assert log.check_local_transaction(request("a")) is COMMIT
    assert booked(engine) == 1


def test_a_transaction_that_never_ran_is_rolled_back_for_good(
    engine: Engine, log: SqlTransactionLog
) -> None:
    assert log.check_local_transaction(request("a")) is ROLLBACK
    assert log.execute_local_transaction(half("a"), 1) is ROLLBACK
    assert log.check_local_transaction(request("a")) is ROLLBACK
    assert booked(engine) == 0


@pytest.mark.parametrize("raises", [False, True])
def test_what_is_rolled_back_or_raises_leaves_no_row(
    engine: Engine, log: SqlTransactionLog, *, raises: bool
) -> None:
    def refuse(connection: Connection, message: Message, arg: Any) -> LocalTransactionState:
        book(connection, message, arg)
        if raises:
            raise ValueError("no stock")
        return ROLLBACK

    log._local_transaction = refuse
    outcome = result_of(log.execute_local_transaction(half("a"), 1))
    assert (outcome.state, outcome.remark) == (ROLLBACK, "ValueError: no stock" if raises else "")
    assert log.check_local_transaction(request("a")) is ROLLBACK
    assert booked(engine) == 0


@pytest.mark.parametrize("outlives_the_check", [True, False])
def test_a_slow_commit_and_a_rollback_never_both_win(
    engine: Engine, log: SqlTransactionLog, *, outlives_the_check: bool
) -> None:
    """The check comes while the local transaction runs: before its first row, or after."""
    running, go_on = threading.Event(), threading.Event()
    answers: dict[str, LocalTransactionState] = {}

    def slow(connection: Connection, message: Message, arg: Any) -> None:
        running.set()
        go_on.wait(10)
        book(connection, message, arg)

    def execute() -> None:
        if outlives_the_check:
            running.set()
            go_on.wait(10)
        answers["execute"] = result_of(log.execute_local_transaction(half("a"), 1)).state

    def check() -> None:
        answers["check"] = log.check_local_transaction(request("a"))

    if not outlives_the_check:
        log._local_transaction = slow
    threads = [threading.Thread(target=execute), threading.Thread(target=check)]
    threads[0].start()
    assert running.wait(10)
    threads[1].start()
    if outlives_the_check:
        threads[1].join()  # the barrier stands before the local transaction begins
    else:
        threads[1].join(0.3)
        assert threads[1].is_alive()  # it waits for the row that is not yet committed
    go_on.set()
    for thread in threads:
        thread.join(20)

    expected = ROLLBACK if outlives_the_check else COMMIT
    assert answers == {"execute": expected, "check": expected}
    assert booked(engine) == (0 if outlives_the_check else 1)


def test_rows_are_forgotten_when_no_check_can_come(engine: Engine) -> None:
    times = iter([1_000.0, 2_000.0])
    log = SqlTransactionLog(engine, book, table_name="forgetful_log", clock_ms=lambda: next(times))
    log.create_table()
    log.execute_local_transaction(half("old"), 1)
    log.execute_local_transaction(half("new"), 2)

    assert log.forget_before(2_000) == 1
    assert log.check_local_transaction(request("new")) is COMMIT
    log.table.drop(engine)


def test_with_a_producer(checkback: Checkback, engine: Engine, log: SqlTransactionLog) -> None:
    producer = checkback.producer(log)
    result = producer.send_message_in_transaction(Message("paid", b"book"), arg=7)
    assert result.local_transaction_state is COMMIT
    (stored,) = checkback.halves(1)

    checkback.ask(stored)

    answers = eventually(lambda: ops if len(ops := checkback.ops(2)) == 2 else None)
    assert [header(op, names.COMMIT_OR_ROLLBACK) for op in answers] == ["8", "8"]
