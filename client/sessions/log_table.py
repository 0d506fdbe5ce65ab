"""The transaction log: a table by which any process of a group answers how a transaction ended.

docs/protocol.md has the table. A transaction writes a row for each of its halves, in the database
transaction of the business rows, so either all these rows exist or none. A check that finds no row
can't tell a rollback from a slow transaction. So the check first writes a barrier row under the
same primary key. A slow transaction then fails on its own insert and rolls back, and the check
answers ROLLBACK. So a commit and a rollback never both happen.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from checkback.client.listener import LocalTransactionState, one_line
from checkback.protocol.errors import ConfigurationError

_log = logging.getLogger(__name__)

COMMITTED: Final = 1
BARRIER: Final = 2
TABLE_NAME: Final = "checkback_transaction"
ROWS_AT_ONCE_MAX: Final = 200
"""A row has three values, and older SQLite takes 999 in a statement."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
CLEANING_PAUSE_S: Final = 3_600.0
NUMBERED: Final = {"numeric": ":", "numeric_dollar": "$", "named": ":"}
LATE: Final = (
    "If it says that the key exists already: a check has answered rollback, because the transaction"
    " took longer than the half's immunity time. Nothing was committed; run it again."
)

Execute = Callable[[str, tuple[Any, ...]], Any]
"""Runs a statement with its values by position."""


class Executed(NamedTuple):
    """What a statement returned: its rows, and how many rows it changed."""

    rows: Sequence[Sequence[Any]]
    changed: int


class LogDatabase(Protocol):
    """The log's database, outside the caller's transactions."""

    @property
    def paramstyle(self) -> str:
        """The placeholder style of statements (PEP 249), or ``numeric_dollar``."""
        ...

    def execute(self, statement: str, values: tuple[Any, ...]) -> Executed:
        """Run a statement in a database transaction of its own, and commit it."""
        ...


class TransactionLog:
    """Writes the rows of transactions, and answers checks from them.

    Args:
        database: where the table is.
        table_name: the table, a schema's name before it where it needs one.
        clock_ms: milliseconds since the epoch.

    Raises:
        ConfigurationError: table_name is no plain name.
    """

    def __init__(
        self,
        database: LogDatabase,
        table_name: str = TABLE_NAME,
        clock_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        if not NAME.fullmatch(table_name):
            raise ConfigurationError(
                f"table_name is {table_name!r}.",
                remedy="Use letters, digits and '_', and a dot after a schema's name.",
                key="table_name",
            )
        self._database = database
        self.table_name = table_name
        self._clock_ms = clock_ms

    def write(
        self,
        execute: Execute,
        transaction_ids: Sequence[str],
        state: int = COMMITTED,
        paramstyle: str = "",
    ) -> None:
        """Write a row for each transaction id.

        Args:
            execute: runs a statement in the database transaction that the rows belong to.
            transaction_ids: of halves that are safely stored.
            state: COMMITTED, or BARRIER.
            paramstyle: of that connection; by default the database's.
        """
        written_at_ms = int(self._clock_ms())
        for start in range(0, len(transaction_ids), ROWS_AT_ONCE_MAX):
            ids = transaction_ids[start : start + ROWS_AT_ONCE_MAX]
            values = tuple(value for id_ in ids for value in (id_, state, written_at_ms))
            marks = self._marks(paramstyle)
            rows = ", ".join(f"({next(marks)}, {next(marks)}, {next(marks)})" for _ in ids)
            columns = "(transaction_id, state, written_at_ms)"
            execute(f"INSERT INTO {self.table_name} {columns} VALUES {rows}", values)  # noqa: S608 - the name was checked

    def outcome(self, transaction_id: str) -> LocalTransactionState:
        """Return the final outcome of a transaction: COMMIT_MESSAGE or ROLLBACK_MESSAGE.

        Raises:
            Exception: the database fails; the pipeline will ask again.
        """
        state = self._look_up(transaction_id)
        if state is None:
            state = self._put_barrier(transaction_id)
        if state == COMMITTED:
            return LocalTransactionState.COMMIT_MESSAGE
        return LocalTransactionState.ROLLBACK_MESSAGE

    def forget_before(self, written_before_ms: float) -> int:
        """Delete rows written before that time, milliseconds since the epoch; return how many."""
        statement = f"DELETE FROM {self.table_name} WHERE written_at_ms < {next(self._marks())}"  # noqa: S608 - the name was checked
        return self._database.execute(statement, (int(written_before_ms),)).changed

    def forget_older_than(self, age_ms: float) -> int:
        """Delete rows that are older; return how many."""
        return self.forget_before(self._clock_ms() - age_ms)

    def _look_up(self, transaction_id: str) -> int | None:
        mark = next(self._marks())
        statement = f"SELECT state FROM {self.table_name} WHERE transaction_id = {mark}"  # noqa: S608 - the name was checked
        rows = self._database.execute(statement, (transaction_id,)).rows
        return int(rows[0][0]) if rows else None

    def _put_barrier(self, transaction_id: str) -> int:
        """Put the barrier; return the state that the row has now.

        The insert waits for a transaction that holds the key: its commit makes it fail.
        """
        try:
            self.write(self._database.execute, [transaction_id], BARRIER)
        except Exception:
            # Most probably the owner of the key has committed. If there is no row even now, the
            # next check asks again.
            state = self._look_up(transaction_id)
            if state is None:
                raise
            return state
        return BARRIER

    def _marks(self, paramstyle: str = "") -> Iterator[str]:
        """Yield the placeholders of a statement, one for each value."""
        style = paramstyle or self._database.paramstyle
        if style == "qmark":
            return iter(lambda: "?", "")
        if style in NUMBERED:
            return (f"{NUMBERED[style]}{number}" for number in count(1))
        return iter(lambda: "%s", "")


class LogCleaner:
    """A thread that deletes old rows of the log, about every hour.

    Args:
        log: the log to clean.
        retention_ms: how long rows are kept.
    """

    def __init__(self, log: TransactionLog, retention_ms: int) -> None:
        self._log = log
        self._retention_ms = retention_ms
        self._stopping = threading.Event()
        threading.Thread(target=self._run, name="checkback-log-cleaner", daemon=True).start()

    def stop(self) -> None:
        """Begin no further deletion."""
        self._stopping.set()

    def _run(self) -> None:
        # Processes share the table: each cleans at another time.
        while not self._stopping.wait(CLEANING_PAUSE_S * random.uniform(0.5, 1.5)):  # noqa: S311 - no secret
            try:
                self._log.forget_older_than(self._retention_ms)
            except Exception as error:
                _log.warning("Old rows of the transaction log stay for now: %s", one_line(error))
