"""The outbox on engines that it can't work with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, func, select

from checkback.client import LocalTransactionState, Message
from checkback.client.sql import SqlTransactionLog
from checkback.protocol.errors import ConfigurationError


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
        log.execute_local_transaction(Message("t", b"x", transaction_id="u"), None)

    assert rows(log, engine) == 0
    engine.dispose()


def test_an_ordinary_engine_takes_the_log_row_back(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'outbox.db'}")
    log = SqlTransactionLog(engine, fail)
    log.create_table()

    with pytest.raises(RuntimeError):
        log.execute_local_transaction(Message("t", b"x", transaction_id="u"), None)

    assert rows(log, engine) == 0
    engine.dispose()
