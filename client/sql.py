"""An outbox for local transactions in a database: a check finds there how they ended.

The local transaction inserts its transaction id in the same database transaction as the business
rows, so either all these rows exist or none. A check that finds no row can't tell a rollback from a
slow local transaction. So the check first writes a barrier row under the same primary key. A slow
local transaction then fails on its own insert and rolls back, and the check answers ROLLBACK. So a
commit and a rollback never both happen.

Needs SQLAlchemy (``pip install 'checkback[sql]'``); tested on SQLite and PostgreSQL.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    SmallInteger,
    String,
    Table,
    delete,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from checkback.client.listener import (
    CallbackResult,
    LocalTransactionState,
    TransactionListener,
    one_line,
)
from checkback.client.message import Message, MessageExt
from checkback.metrics.log_lines import facts
from checkback.protocol.errors import ConfigurationError

_log = logging.getLogger(__name__)

COMMITTED: Final = 1
BARRIER: Final = 2

LocalTransaction = Callable[[Connection, Message, Any], LocalTransactionState | None]
"""The business rows, written through that connection; None means commit. What it raises, and any
other state than COMMIT_MESSAGE, rolls them back. It leaves the commit to the log."""


class SqlTransactionLog(TransactionListener):
    """A transaction listener whose local transactions are database transactions.

    ::

        def book(connection, message, arg):
            connection.execute(insert(orders).values(arg))

        log = SqlTransactionLog(engine, book)
        log.create_table()
        producer = TransactionMQProducer("orders", ..., transaction_listener=log)

    Args:
        engine: the database of the business rows.
        local_transaction: writes them.
        table_name: the log's table, beside the business tables.
        clock_ms: milliseconds since the epoch.
    """

    def __init__(
        self,
        engine: Engine,
        local_transaction: LocalTransaction,
        *,
        table_name: str = "checkback_transaction",
        clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._engine = engine
        self._local_transaction = local_transaction
        self._clock_ms = clock_ms
        self._metadata = MetaData()
        self.table = Table(
            table_name,
            self._metadata,
            Column("transaction_id", String(64), primary_key=True),
            Column("state", SmallInteger, nullable=False),
            Column("written_at_ms", BigInteger, nullable=False),
        )

    def create_table(self) -> None:
        """Create the log's table unless it exists."""
        self._metadata.create_all(self._engine)

    def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> LocalTransactionState | CallbackResult:
        """Run the local transaction and log it, in one database transaction.

        The log's row comes first: where a check has put its barrier, nothing else is tried.

        Returns:
            How it ended. What was raised before the commit has certainly rolled back: it is in the
            result, with ROLLBACK_MESSAGE.

        Raises:
            ConfigurationError: the engine commits each statement by itself; nothing was written.
            Exception: what the commit raised, or a local transaction that had ended its database
                transaction itself. The answer is then unknown: the commit may have happened
                although its confirmation was lost.
        """
        try:
            connection = self._engine.connect()
        except Exception as error:
            return _rolled_back(error)
        with connection, connection.begin() as transaction:
            _require_transactions(connection)
            try:
                is_to_commit = self._write(connection, message, arg)
            except Exception as error:
                if not transaction.is_active:
                    raise
                transaction.rollback()
                return _rolled_back(error)
            if not is_to_commit:
                transaction.rollback()
                return LocalTransactionState.ROLLBACK_MESSAGE
        return LocalTransactionState.COMMIT_MESSAGE

    def _write(self, connection: Connection, message: Message, arg: Any) -> bool:
        """Write the log's row and the business rows; tell whether they are to be committed."""
        try:
            self._insert(connection, message.transaction_id, COMMITTED)
        except IntegrityError:
            _log.warning(
                "Transaction %s came too late: a check has answered rollback",
                message.transaction_id,
                extra=facts(transaction_id=message.transaction_id),
            )
            return False
        state = self._local_transaction(connection, message, arg)
        return state in (None, LocalTransactionState.COMMIT_MESSAGE)

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Look the outcome up; if there is none yet, make it a final rollback."""
        return self.outcome(message.transaction_id)

    def outcome(self, transaction_id: str) -> LocalTransactionState:
        """Return the final outcome of a transaction: COMMIT_MESSAGE or ROLLBACK_MESSAGE.

        Raises:
            sqlalchemy.exc.DBAPIError: the database can't say now; the pipeline will ask again.
        """
        state = self._look_up(transaction_id)
        if state is None:
            state = self._put_barrier(transaction_id)
        if state == COMMITTED:
            return LocalTransactionState.COMMIT_MESSAGE
        return LocalTransactionState.ROLLBACK_MESSAGE

    def forget_before(self, written_before_ms: float) -> int:
        """Delete rows written before that time, milliseconds since the epoch; return how many.

        A row is needed as long as a check may come: at least the pipeline's half_retention_ms.
        """
        old = delete(self.table).where(self.table.c.written_at_ms < int(written_before_ms))
        with self._engine.begin() as connection:
            return connection.execute(old).rowcount

    def _look_up(self, transaction_id: str) -> int | None:
        wanted = select(self.table.c.state).where(self.table.c.transaction_id == transaction_id)
        with self._engine.connect() as connection:
            return connection.execute(wanted).scalar_one_or_none()

    def _put_barrier(self, transaction_id: str) -> int:
        """Put the barrier and return what now stands there.

        The insert waits for a local transaction that holds the key: its commit makes it fail.
        """
        try:
            with self._engine.begin() as connection:
                self._insert(connection, transaction_id, BARRIER)
        except IntegrityError:
            # The owner of the key has committed. If its row is gone by now, the next check asks
            # again.
            state = self._look_up(transaction_id)
            if state is None:
                raise
            return state
        return BARRIER

    def _insert(self, connection: Connection, transaction_id: str, state: int) -> None:
        row = {
            "transaction_id": transaction_id,
            "state": state,
            "written_at_ms": int(self._clock_ms()),
        }
        connection.execute(insert(self.table).values(row))


def _rolled_back(error: Exception) -> CallbackResult:
    return CallbackResult(LocalTransactionState.ROLLBACK_MESSAGE, one_line(error), error)


def _require_transactions(connection: Connection) -> None:
    """Refuse a connection that could store the log's row without the business rows.

    Raises:
        ConfigurationError: it commits each statement by itself.
    """
    detect = getattr(
        connection.dialect, "detect_autocommit_setting", None
    )  # an older SQLAlchemy has none
    is_asked_for = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    try:
        commits = detect is not None and detect(connection.connection.dbapi_connection)
    except NotImplementedError:
        commits = False
    if is_asked_for or commits:
        raise ConfigurationError(
            "The engine of SqlTransactionLog commits each statement by itself (AUTOCOMMIT).",
            remedy="Give it an engine with transactions: log and business rows are one.",
        )
