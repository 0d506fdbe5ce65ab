"""Messages in the transaction of a plain DB-API connection (PEP 249).

Drivers have no events, so the block of `Producer.transaction` itself commits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from inspect import iscoroutinefunction
from typing import Any, NoReturn

from checkback.client.listener import one_line
from checkback.client.sessions.joined import COMMIT, ROLLBACK, UNKNOWN, Joined
from checkback.client.sessions.log_table import Executed
from checkback.protocol.errors import ConfigurationError

Connect = Callable[[], Any]
"""Opens a connection of a DB-API driver."""


class DbApiDatabase:
    """A database that a driver reaches.

    Args:
        connect: opens a connection; each check has one of its own.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._paramstyle = ""

    @property
    def paramstyle(self) -> str:
        """The placeholder style of statements (PEP 249)."""
        if not self._paramstyle:
            with closing(self._connect()) as connection:
                self._paramstyle = paramstyle_of(connection)
        return self._paramstyle

    def execute(self, statement: str, values: tuple[Any, ...]) -> Executed:
        """Run a statement in a database transaction of its own, and commit it."""
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement, values)
            rows = [] if cursor.description is None else cursor.fetchall()
            connection.commit()
            return Executed(rows, cursor.rowcount)

    def create_table(self, name: str) -> NoReturn:
        """Refuse: SQL for it differs between databases.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            f"A producer over a plain connection does not create {name}.",
            remedy="Create it by your migrations; `checkback docs protocol` has the SQL.",
        )

    def join(self, target: object) -> NoReturn:
        """Refuse: a driver's connection does not show its commit.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            f"session is a {type(target).__name__}.",
            remedy="Send in `with producer.transaction(connection) as transaction`, and give"
            " session=transaction.",
        )


@contextmanager
def committing(connection: Any) -> Iterator[Joined]:
    """Commit at the end of a block, or roll back what raises.

    Raises:
        ConfigurationError: the connection commits each statement by itself, or is awaited.
    """
    if iscoroutinefunction(getattr(connection, "commit", None)):
        raise ConfigurationError(
            "The connection belongs to an event loop.",
            remedy="Give a connection whose calls are not awaited, or use an AsyncSession of"
            " SQLAlchemy.",
        )
    if _commits_alone(connection):
        raise ConfigurationError(
            "The connection commits each statement by itself (autocommit).",
            remedy="Turn it off: the log's rows and the business rows need one transaction.",
        )
    joined = Joined()

    def execute(statement: str, values: tuple[Any, ...]) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement, values)

    try:
        yield joined
        joined.seal(execute, paramstyle_of(connection))
    except BaseException:
        with suppress(Exception):
            connection.rollback()
        joined.end(ROLLBACK)
        raise
    try:
        connection.commit()
    except BaseException as error:
        joined.end(UNKNOWN, one_line(error))
        raise
    joined.end(COMMIT)


def paramstyle_of(connection: object) -> str:
    """Return the placeholder style of a driver, from the driver's module."""
    connection = getattr(connection, "driver_connection", connection)  # of SQLAlchemy's pool
    for kind in type(connection).__mro__:  # an application may derive from the driver's class
        driver: Any = sys.modules.get(kind.__module__.partition(".")[0])
        if hasattr(driver, "paramstyle"):
            return str(driver.paramstyle)
    return "format"


def _commits_alone(connection: Any) -> bool:
    """Tell whether the connection commits each statement; drivers have three ways to say so."""
    connection = getattr(connection, "driver_connection", connection)
    if hasattr(connection, "get_autocommit"):
        return bool(connection.get_autocommit())
    level = getattr(connection, "isolation_level", "")  # None: sqlite3 begins no transaction itself
    if level is None and not getattr(connection, "in_transaction", True):
        return True
    return getattr(connection, "autocommit", False) is True
