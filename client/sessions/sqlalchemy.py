"""Messages in the transactions of SQLAlchemy: Session, AsyncSession, Connection, AsyncConnection.

SQLAlchemy has an event before a commit, and none after it. So the handler of that event commits;
SQLAlchemy's own commit then has nothing left to do.

A send is not awaited, so it can't open the connection of an AsyncSession. The session's own events
show its savepoints, and the session gets its connection at the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Index,
    MetaData,
    SmallInteger,
    String,
    Table,
    event,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL, TwoPhaseTransaction
from sqlalchemy.exc import DBAPIError, MissingGreenlet, StatementError, UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session
from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

from checkback.client.listener import LocalTransactionState, one_line
from checkback.client.sessions.joined import COMMIT, ROLLBACK, UNKNOWN, Joined
from checkback.client.sessions.log_table import Executed
from checkback.protocol.errors import ConfigurationError

T = TypeVar("T")
INFO_KEY: Final = "checkback"
AUTOCOMMIT: Final = "AUTOCOMMIT"
READ_UNCOMMITTED: Final = "READ UNCOMMITTED"
MYSQL: Final = ("mysql", "mariadb")
CREATING_TRIES: Final = 3
CASE_KEPT: Final = mysql.VARCHAR(64, charset="ascii", collation="ascii_bin")
"""Otherwise ids that differ in upper and lower case alone are the same to MySQL and MariaDB."""


class Followed:
    """The messages of a connection's transaction."""

    def __init__(self) -> None:
        self.by_savepoints = Joined()
        """Follows the connection's savepoints."""
        self.by_session: Joined | None = None
        """Follows the savepoints of the session that the connection was given to."""

    def end(self, state: LocalTransactionState, remark: str = "") -> None:
        """Send the ops of all messages."""
        for joined in self.all():
            joined.end(state, remark)

    def all(self) -> list[Joined]:
        """Return all messages of the transaction."""
        return [joined for joined in (self.by_session, self.by_savepoints) if joined is not None]


class UnconnectedSession(NamedTuple):
    """The messages of a session that has no connection yet."""

    joined: Joined
    bind: Engine


_followed: WeakKeyDictionary[Connection, Followed] = WeakKeyDictionary()
_heard: WeakSet[Engine] = WeakSet()
"""Engines with listeners of events; SQLAlchemy takes longer to say whether there are any."""


class EngineDatabase:
    """A database that an engine reaches.

    Args:
        engine: of the business rows.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def paramstyle(self) -> str:
        """The placeholder style of statements (PEP 249)."""
        return self.engine.dialect.paramstyle

    def execute(self, statement: str, values: tuple[Any, ...]) -> Executed:
        """Run a statement in a database transaction of its own, and commit it."""

        def run(connection: Connection) -> Executed:
            result = connection.exec_driver_sql(statement, values)
            return Executed(result.all() if result.returns_rows else [], result.rowcount)

        return self._run(run)

    def create_table(self, name: str) -> None:
        """Create the log's table and its index unless they exist; an older table has no index."""
        table = log_table(name)
        for left in range(CREATING_TRIES - 1, -1, -1):
            try:
                self._run(lambda connection: create_log_table(table, connection))
            except DBAPIError:  # another process may just have created it
                if not left:
                    raise
            else:
                return

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self.engine.begin() as connection:
            _require_committed_reads(connection)
            return work(connection)

    def join(self, target: object) -> Joined:
        """Return the messages that share a session's transaction.

        Args:
            target: a session or a connection of SQLAlchemy.

        Raises:
            ConfigurationError: its transactions can't have messages, or are in another database.
        """
        return join(target, self.engine)


class AsyncEngineDatabase(EngineDatabase):
    """A database that an asyncio engine reaches.

    Checks come in a thread, and the engine's connections belong to the application's event loop. So
    each check has a connection of its own.
    """

    def _run(self, work: Callable[[Connection], T]) -> T:
        engine = self.engine
        own = AsyncEngine(Engine(engine.pool.recreate(), engine.dialect, engine.url))

        def run_sync(connection: Connection) -> T:
            _require_committed_reads(connection)
            return work(connection)

        async def run() -> T:
            try:
                async with own.begin() as connection:
                    return await connection.run_sync(run_sync)
            finally:
                await own.dispose()

        # In a thread: the caller's thread may run an event loop already.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, run()).result()


def database_of_engine(given: object) -> EngineDatabase:
    """Return the database of an engine.

    Raises:
        ConfigurationError: it is no engine.
    """
    if isinstance(given, AsyncEngine):
        return AsyncEngineDatabase(given.sync_engine)
    if isinstance(given, Engine):
        return EngineDatabase(given)
    raise ConfigurationError(
        f"database is a {type(given).__name__}.",
        remedy="Give an Engine or an AsyncEngine.",
        key="database",
    )


def log_table(name: str) -> Table:
    """Return the log's table, for a migration say."""
    schema, _, name = name.rpartition(".")
    return Table(
        name,
        MetaData(),
        Column("transaction_id", String(64).with_variant(CASE_KEPT, *MYSQL), primary_key=True),
        Column("state", SmallInteger, nullable=False),
        Column("written_at_ms", BigInteger, nullable=False),
        Index(f"{name}_written_at", "written_at_ms"),
        schema=schema or None,
    )


def create_log_table(table: Table, bind: Engine | Connection) -> None:
    """Create the log's table and its index unless they exist; an older table has no index."""
    table.create(bind, checkfirst=True)
    for index in table.indexes:
        index.create(bind, checkfirst=True)


def join(target: object, database: Engine) -> Joined:
    """Return the messages that share a session's transaction.

    Args:
        target: a session or a connection.
        database: where checks look the outcome up.

    Raises:
        ConfigurationError: its transactions can't have messages, or are in another database.
    """
    if isinstance(target, (scoped_session, async_scoped_session)):
        target = target()
    if isinstance(target, AsyncSession):
        target = target.sync_session
    elif isinstance(target, AsyncConnection):
        target = target.sync_connection
    if isinstance(target, Session):
        return _join_session(target, database)
    if not isinstance(target, Connection):
        raise ConfigurationError(
            f"session is a {type(target).__name__}.",
            remedy="Give a Session, an AsyncSession, or a Connection that is open.",
        )
    return _join_connection(target, database)


def _join_session(session: Session, database: Engine) -> Joined:
    if session.twophase:
        raise _no_two_phases()
    waiting = session.info.get(INFO_KEY)
    if waiting is None:
        bind = _bind_of(session, database)
        if isinstance(bind, Connection):
            return _join_connection(_connected(session, bind), database)
        if not bind.dialect.is_async or in_greenlet():
            return _join_connection(session.connection(bind_arguments={"bind": bind}), database)
        _require_same(bind, database)
        if AUTOCOMMIT in (
            bind.get_execution_options().get("isolation_level"),
            getattr(bind.dialect, "_on_connect_isolation_level", None),
        ):
            raise _no_transactions()
        if not session.in_transaction():
            session.begin()
        waiting = session.info[INFO_KEY] = UnconnectedSession(Joined(), bind)
    _require_same(waiting.bind, database)
    joined: Joined = waiting.joined
    return joined


def _bind_of(session: Session, database: Engine) -> Engine | Connection:
    """Return what the session's transaction is on.

    Raises:
        ConfigurationError: it has engines for some tables only, and not the producer's.
    """
    try:
        return session.get_bind()
    except UnboundExecutionError:
        binds = getattr(session, "_Session__binds", {}).values()
        for bind in binds:
            if _address(bind.engine.url) == _address(database.url):
                return bind  # type: ignore[no-any-return]
        raise _other_database("other databases", database) from None


def _connected(session: Session, bind: Connection) -> Connection:
    """Return the connection that a session is bound to, once the session has begun there.

    Else a rollback of the session would not reach what was sent before its first statement.

    Raises:
        ConfigurationError: an event loop has to begin it.
    """
    try:
        return session.connection(bind_arguments={"bind": bind})
    except (MissingGreenlet, StatementError) as error:
        if not isinstance(getattr(error, "orig", error), MissingGreenlet):
            raise
        raise ConfigurationError(
            "The session is bound to a connection, and has not begun its savepoint there.",
            remedy="Call `await session.connection()` before the first send.",
        ) from error


def _join_connection(connection: Connection, database: Engine) -> Joined:
    _require_same(connection.engine, database)
    followed = _followed.get(connection)
    if followed is None:
        if not connection.in_transaction():
            connection.begin()
        followed = _follow(connection)
    return followed.by_savepoints


def _follow(connection: Connection) -> Followed:
    require_transactions(connection)
    if isinstance(connection.get_transaction(), TwoPhaseTransaction):
        raise _no_two_phases()
    engine = connection.engine
    while (parent := getattr(engine, "_proxied", None)) is not None:
        engine = parent  # of execution_options(): it has its parent's listeners, too
    if engine not in _heard:
        event.listen(engine, "commit", _commit)
        event.listen(engine, "rollback", _rollback)
        event.listen(engine, "savepoint", _savepoint)
        event.listen(engine, "release_savepoint", _release)
        event.listen(engine, "rollback_savepoint", _rollback_to)
        _heard.add(engine)
    followed = _followed[connection] = Followed()
    return followed


def _commit(connection: Connection) -> None:
    """Store halves and rows, commit, and send the ops."""
    followed = _followed.pop(connection, None)
    if followed is None:
        return
    dialect = connection.dialect
    try:
        for joined in followed.all():
            joined.seal(
                connection.exec_driver_sql,
                dialect.paramstyle,
                await_only if dialect.is_async else None,
            )
    except BaseException:
        # SQLAlchemy would leave the transaction open: it counts as ended there.
        try:
            connection.connection.rollback()
        except BaseException:  # cancelled again, say: the pool must not give it to others
            connection.invalidate()
        followed.end(ROLLBACK)
        raise
    try:
        # A public commit would end the transaction twice, and call every listener again.
        dialect.do_commit(connection.connection)
    except BaseException as error:
        followed.end(UNKNOWN, one_line(error))
        connection._handle_dbapi_exception(error, None, None, None, None)  # noqa: SLF001 - raises
    followed.end(COMMIT)


def _rollback(connection: Connection) -> None:
    followed = _followed.pop(connection, None)
    if followed is not None:
        followed.end(ROLLBACK)


def _savepoint(connection: Connection, _: str | None) -> None:
    followed = _followed.get(connection)
    if followed is not None:
        followed.by_savepoints.savepoint()


def _release(connection: Connection, name: str, _: object) -> None:
    followed = _followed.get(connection)
    if followed is not None:
        _require_innermost(connection, name, followed.by_savepoints)
        followed.by_savepoints.release()


def _rollback_to(connection: Connection, name: str, _: object) -> None:
    followed = _followed.get(connection)
    if followed is not None:
        _require_innermost(connection, name, followed.by_savepoints)
        followed.by_savepoints.rollback_to()


def _require_innermost(connection: Connection, name: str, joined: Joined) -> None:
    """Make the commit fail if a savepoint ends before one inside it."""
    innermost = getattr(connection.get_nested_transaction(), "_savepoint", name)
    if innermost != name:
        joined.spoil(f"Savepoint {name} was ended before {innermost}, which is inside it.")


@event.listens_for(Session, "before_commit")
def _give_connection(session: Session) -> None:
    waiting = session.info.get(INFO_KEY)
    if waiting is not None and not waiting.joined.is_ended:
        connection = session.connection(bind_arguments={"bind": waiting.bind})
        followed = _followed.get(connection) or _follow(connection)
        followed.by_session = waiting.joined


@event.listens_for(Session, "after_transaction_create")
def _begun(session: Session, transaction: SessionTransaction) -> None:
    waiting = session.info.get(INFO_KEY)
    if waiting is not None and transaction.nested:
        waiting.joined.savepoint()


@event.listens_for(Session, "after_commit")
def _committed(session: Session) -> None:
    waiting = session.info.get(INFO_KEY)
    if waiting is not None and session.in_nested_transaction():
        waiting.joined.is_released = True


@event.listens_for(Session, "after_transaction_end")
def _ended(session: Session, transaction: SessionTransaction) -> None:
    waiting = session.info.get(INFO_KEY)
    if waiting is None:
        return
    joined: Joined = waiting.joined
    if transaction.parent is None:
        del session.info[INFO_KEY]
        joined.end(ROLLBACK)
    elif transaction.nested:
        is_released, joined.is_released = joined.is_released, False
        joined.release() if is_released else joined.rollback_to()


def require_transactions(connection: Connection) -> None:
    """Refuse a connection that could store the log's row without the business rows.

    Raises:
        ConfigurationError: it commits each statement by itself.
    """
    dialect = connection.dialect
    detect = getattr(dialect, "detect_autocommit_setting", None)  # an older SQLAlchemy has none
    is_asked_for = connection.get_execution_options().get("isolation_level") == AUTOCOMMIT
    pooled = connection.connection
    try:
        commits = detect is not None and detect(pooled.dbapi_connection)
    except NotImplementedError:
        commits = False
    # SQLite's transactions are begun by hand where savepoints have to work.
    commits = commits and not getattr(pooled.driver_connection, "in_transaction", False)
    if is_asked_for or commits:
        raise _no_transactions()


def _require_committed_reads(connection: Connection) -> None:
    """Refuse a check that could see the row of a transaction that rolls back.

    Raises:
        ConfigurationError: the engine's isolation level is READ UNCOMMITTED.
    """
    chosen = connection.get_execution_options().get("isolation_level")
    at_connect = getattr(connection.dialect, "_on_connect_isolation_level", None)
    if (chosen or at_connect or connection.default_isolation_level) == READ_UNCOMMITTED:
        raise ConfigurationError(
            f"The engine's isolation level is {READ_UNCOMMITTED}.",
            remedy="Give one that reads committed rows: else a check answers commit for a"
            " transaction that rolls back.",
        )


def _no_transactions() -> ConfigurationError:
    return ConfigurationError(
        "The engine commits each statement by itself (AUTOCOMMIT).",
        remedy="Give one with transactions: the log's rows and the business rows need one"
        " transaction.",
    )


def _require_same(bound: Engine, database: Engine) -> None:
    """Refuse a transaction in a database where no check would look.

    Raises:
        ConfigurationError: the addresses differ.
    """
    if bound is not database and _address(bound.url) != _address(database.url):
        raise _other_database(bound.url.render_as_string(), database)


def _other_database(written_to: str, database: Engine) -> ConfigurationError:
    return ConfigurationError(
        f"The session writes to {written_to}, and the producer's database is"
        f" {database.url.render_as_string()}.",
        remedy="Give the producer the database of its sessions.",
    )


def _address(url: URL) -> tuple[str, str | None, int | None, str | None]:
    return url.get_backend_name(), url.host, url.port, url.database


def _no_two_phases() -> ConfigurationError:
    return ConfigurationError(
        "A two-phase transaction can't have messages.",
        remedy="Commit in one phase: the log's rows and the business rows are in one database.",
    )
