"""The outbox on engines that it can't work with, and work that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, func, select
from sqlalchemy.exc import OperationalError
from tests.unit.client.producer_playing import Clients, kafka, producer_of

from checkback.client import LocalTransactionState, Message
from checkback.client.listener import result_of
from checkback.client.sql import SqlTransactionLog
from checkback.protocol.errors import ConfigurationError

__all__ = ["kafka"]
MESSAGE = Message("t", b"x", transaction_id="u")


def fail(_connection: Connection, _message: Message, _arg: Any) -> LocalTransactionState:
    raise RuntimeError


def rows(log: SqlTransactionLog, engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(log.table)).scalar_one())


@pytest.mark.parametrize("by_options", [False, True])
def test_an_engine_without_transactions_is_refused(by_options: bool, tmp_path: Path) -> None:
    """Its log would say that a local transaction committed which failed."""
    address = f"sqlite:///{tmp_path / 'outbox.db'}"
    engine: Engine = create_engine(address)
    if by_options:
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    else:
        engine = create_engine(address, isolation_level="AUTOCOMMIT")
    log = SqlTransactionLog(engine, fail)
    log.create_table()

    with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
        log.execute_local_transaction(MESSAGE, None)

    assert rows(log, engine) == 0
    engine.dispose()


@pytest.mark.parametrize("by_options", [False, True])
def test_a_check_that_could_see_rows_that_roll_back_is_refused(
    by_options: bool, tmp_path: Path
) -> None:
    """It answered commit while the local transaction ran, which then rolled back."""
    address, level = f"sqlite:///{tmp_path / 'outbox.db'}", "READ UNCOMMITTED"
    made = create_engine(address, isolation_level=level)
    if by_options:
        made = create_engine(address).execution_options(isolation_level=level)
    log = SqlTransactionLog(made, fail)
    log.create_table()

    with pytest.raises(ConfigurationError, match=level):
        log.outcome("id")

    assert rows(log, made) == 0
    made.dispose()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path / 'outbox.db'}")
    yield made
    made.dispose()


def test_work_that_raises_has_rolled_back_and_the_sender_learns_why(
    engine: Engine, kafka: list[Clients], caplog: pytest.LogCaptureFixture
) -> None:
    """It was unknown, asked back, and logged with a traceback each time."""
    log = SqlTransactionLog(engine, fail)
    log.create_table()
    with producer_of(log) as producer:
        result = producer.send_message_in_transaction(Message("t", b"x"))

    assert result.local_transaction_state is LocalTransactionState.ROLLBACK_MESSAGE
    assert isinstance(result.exception, RuntimeError)
    [op] = kafka[0].ops[0].sent
    assert dict(op["headers"])["COMMIT_OR_ROLLBACK"] == b"12"
    assert [one for one in caplog.records if one.exc_info] == []
    assert rows(log, engine) == 0


def test_a_database_that_is_away_has_committed_nothing(tmp_path: Path) -> None:
    log = SqlTransactionLog(create_engine(f"sqlite:///{tmp_path / 'no' / 'folder.db'}"), fail)

    outcome = result_of(log.execute_local_transaction(MESSAGE, None))

    assert outcome.state is LocalTransactionState.ROLLBACK_MESSAGE
    assert isinstance(outcome.exception, OperationalError)


def test_work_that_ended_its_transaction_itself_is_unknown(engine: Engine) -> None:
    def commit_and_fail(connection: Connection, _message: Message, _arg: Any) -> None:
        connection.commit()
        raise RuntimeError("after the commit")

    log = SqlTransactionLog(engine, commit_and_fail)
    log.create_table()

    with pytest.raises(RuntimeError, match="after the commit"):
        log.execute_local_transaction(MESSAGE, None)

    assert log.outcome("u") is LocalTransactionState.COMMIT_MESSAGE
