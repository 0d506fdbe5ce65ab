"""An outbox for local transactions in a database: a check finds there how they ended.

The local transaction writes a row of the transaction log (docs/protocol.md) in the same database
transaction as the business rows, and a check looks it up.

Needs SQLAlchemy (``pip install 'checkback[sql]'``); tested on SQLite and PostgreSQL.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from checkback.client.listener import (
    CallbackResult,
    LocalTransactionState,
    TransactionListener,
    one_line,
)
from checkback.client.message import Message, MessageExt
from checkback.client.sessions.log_table import TABLE_NAME, TransactionLog
from checkback.client.sessions.sqlalchemy import (
    EngineDatabase,
    create_log_table,
    log_table,
    require_transactions,
)
from checkback.metrics.log_lines import facts

_log = logging.getLogger(__name__)

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
        table_name: str = TABLE_NAME,
        clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        self._engine = engine
        self._local_transaction = local_transaction
        self._log = TransactionLog(EngineDatabase(engine), table_name, clock_ms)
        self.table = log_table(table_name)

    def create_table(self) -> None:
        """Create the log's table and its index unless they exist; older versions made no index."""
        create_log_table(self.table, self._engine)

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
            require_transactions(connection)
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
            self._log.write(connection.exec_driver_sql, [message.transaction_id])
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
        return self._log.outcome(transaction_id)

    def forget_before(self, written_before_ms: float) -> int:
        """Delete rows written before that time, milliseconds since the epoch; return how many.

        A row is needed as long as a check may come: at least the pipeline's half_retention_ms.
        """
        return self._log.forget_before(written_before_ms)


def _rolled_back(error: Exception) -> CallbackResult:
    return CallbackResult(LocalTransactionState.ROLLBACK_MESSAGE, one_line(error), error)
