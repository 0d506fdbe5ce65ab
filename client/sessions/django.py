"""Messages in the transactions of Django.

Django has no callback before a commit and none after a rollback. So the outermost block of
`Producer.atomic` waits for the half messages and writes their rows at its end. In a plain
``atomic`` each send does so at once. A message is rolled back with a savepoint where Django has
dropped the message's callback from its list of callbacks on commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

from checkback.client.listener import one_line
from checkback.client.sessions.joined import COMMIT, ROLLBACK, UNKNOWN, Joined, Owner
from checkback.client.sessions.log_table import Executed
from checkback.client.sessions.sent import SentMessage
from checkback.protocol.errors import ConfigurationError

PARAMSTYLE: Final = "format"
"""Django's placeholders, for every backend."""


class _OnCommit:
    """A callback that Django calls on commit, and drops when it rolls back."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined

    def __call__(self) -> None:
        self._joined.end(COMMIT)

    def __del__(self) -> None:
        # Unknown, not rollback: Django also drops it when the answer to a commit was lost.
        self._joined.end(UNKNOWN)


class _AtOnce(Joined):
    """One message in a plain ``atomic``."""

    def __init__(self, database: DjangoDatabase) -> None:
        super().__init__(stores_at_once=True)
        self._database = database

    def add(self, owner: Owner, sent: SentMessage) -> None:
        """Write the message's row; the commit will send its op."""
        super().add(owner, sent)
        try:
            self.seal(self._database.run, PARAMSTYLE)
        except BaseException:
            self.end(ROLLBACK)
            raise
        self._database.on_commit(_OnCommit(self))


class _Block(Joined):
    """The messages of the outermost block of `Producer.atomic`."""

    def __init__(self, database: DjangoDatabase) -> None:
        super().__init__()
        self._database = database
        self._marks: dict[SentMessage, object] = {}

    def add(self, owner: Owner, sent: SentMessage) -> None:
        """Add a message to the innermost savepoint."""
        super().add(owner, sent)
        mark = self._marks[sent] = _Mark()
        self._database.on_commit(mark)

    def seal_alive(self) -> None:
        """Wait for the halves that no savepoint has rolled back, and write their rows."""
        alive = {id(entry[1]) for entry in self._database.connection.run_on_commit}
        self.keep(lambda sent: id(self._marks[sent]) in alive)
        self.seal(self._database.run, PARAMSTYLE)


class _Mark:
    """A callback on commit that shows whether its savepoint was rolled back."""

    def __call__(self) -> None:
        """Do nothing."""


class DjangoDatabase:
    """A database of Django's settings.

    Args:
        alias: its name there.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._connections: Any = import_module("django.db").connections
        self._transaction: Any = import_module("django.db.transaction")
        self._blocks: WeakKeyDictionary[Any, _Block] = WeakKeyDictionary()

    @property
    def paramstyle(self) -> str:
        """The placeholder style of statements (PEP 249)."""
        return PARAMSTYLE

    @property
    def connection(self) -> Any:
        """The thread's connection."""
        return self._connections[self._alias]

    def run(self, statement: str, values: tuple[Any, ...]) -> Executed:
        """Run a statement in the thread's transaction."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            rows = [] if cursor.description is None else cursor.fetchall()
            return Executed(rows, cursor.rowcount)

    def execute(self, statement: str, values: tuple[Any, ...]) -> Executed:
        """Run a statement in a database transaction of its own, and commit it."""
        self.connection.close_if_unusable_or_obsolete()
        with self._transaction.atomic(using=self._alias, durable=True):
            return self.run(statement, values)

    def create_table(self, name: str) -> NoReturn:
        """Refuse: migrations create tables.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(
            f"A producer over Django's database does not create {name}.",
            remedy="Add 'checkback.client.django' to INSTALLED_APPS, and run migrate.",
        )

    def on_commit(self, call: Callable[[], None]) -> None:
        """Call a function on commit, unless a savepoint around this point is rolled back."""
        self._transaction.on_commit(call, using=self._alias)

    def join(self, target: object) -> Joined:
        """Return the messages of the thread's transaction.

        Raises:
            ConfigurationError: there is none, or another session was given.
        """
        connection = self.connection
        if target is not None:
            raise ConfigurationError(
                f"session is a {type(target).__name__}.",
                remedy="Leave it out: Django knows the transaction.",
            )
        if not connection.in_atomic_block:
            raise ConfigurationError(
                "Django commits each statement by itself here (autocommit).",
                remedy="Send in `with producer.atomic():`.",
            )
        return self._blocks.get(connection) or _AtOnce(self)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Enclose a block as ``transaction.atomic`` does, and wait for the halves at its end."""
        connection = self.connection
        if connection.in_atomic_block:
            with self._transaction.atomic(using=self._alias):
                yield
            return
        block = self._blocks[connection] = _Block(self)
        is_sealed = False
        try:
            with self._transaction.atomic(using=self._alias):
                yield
                if not connection.needs_rollback:
                    block.seal_alive()
                    is_sealed = True
                    self.on_commit(lambda: block.end(COMMIT))
        except BaseException as error:
            block.end(UNKNOWN if is_sealed else ROLLBACK, one_line(error))
            raise
        finally:
            del self._blocks[connection]
            block.end(ROLLBACK)


def database_of_django(given: Any) -> DjangoDatabase:
    """Return the database of a connection of Django."""
    return DjangoDatabase(given.alias)
