"""The producer of messages that share the fate of the caller's own database transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from checkback.client.listener import one_line
from checkback.client.observing.counters import Counters
from checkback.client.options import ProducerKeywords
from checkback.client.producer import ServiceState, require_no_parents
from checkback.client.sessions.check_listeners import Check, CheckListener, LogListener
from checkback.client.sessions.core import Core, SessionCore
from checkback.client.sessions.databases import SessionDatabase, database_of
from checkback.client.sessions.dbapi import DbApiDatabase, committing
from checkback.client.sessions.joined import COMMIT, UNKNOWN, Joined
from checkback.client.sessions.log_table import TABLE_NAME, LogCleaner, TransactionLog
from checkback.client.sessions.sent import SentMessage
from checkback.client.sessions.values import Serializer, message_of
from checkback.protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
    from sqlalchemy.orm import Session

    Database = Engine | AsyncEngine | Callable[[], Any]
    InTransaction = Session | AsyncSession | Connection | AsyncConnection

LOG_RETENTION_MS: Final = 7 * 86_400_000
"""More than the pipeline's half_retention_ms as delivered, three days, and any clock skew."""


class Transaction:
    """The transaction of a `Producer.transaction` block: the ``session`` of its sends."""

    def __init__(self, joined: Joined, producer: Producer) -> None:
        self.joined = joined
        self.producer = producer


class Producer:
    """Sends messages inside the caller's own database transactions.

    ::

        producer = Producer("order-service", bootstrap_servers="localhost:9092", database=engine)

        with Session(engine) as session, session.begin():
            session.add(order)
            producer.send("paid", {"order": order.id}, key=f"order-{order.id}", session=session)

    Once the transaction has committed, the message is delivered, once; if it rolled back, or the
    process died before the commit, never. The transaction log (docs/protocol.md), a table beside
    the business tables, answers the pipeline's checks.

    The producer opens itself at its first use in each process, and closes when the process ends, or
    before by ``close()``, ``with`` or ``async with``. Threads may share it. Children that are to
    send must be forked before it opens.

    Args:
        group: all processes of one application share it: any of them answers checks.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        database: where the business rows are: an Engine or AsyncEngine of SQLAlchemy, a connection
            of Django (``django.db.connection``), or a function that opens a DB-API connection.
        check: says how the transaction of a message ended, where there is no database.
        serializer: makes bytes of bodies; by default of texts (UTF-8) and dicts (JSON).
        table_name: the transaction log's table.
        log_retention_ms: how long its rows are kept: at least as long as the pipeline keeps halves
            (``half_retention_ms``).
        options: see `ProducerOptions`.

    Raises:
        ConfigurationError: an argument or an option is not usable.
    """

    def __init__(
        self,
        group: str,
        *,
        bootstrap_servers: str,
        database: Database | None = None,
        check: Check | None = None,
        serializer: Serializer | None = None,
        table_name: str = TABLE_NAME,
        log_retention_ms: int = LOG_RETENTION_MS,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        if (database is None) == (check is None):
            raise ConfigurationError(
                "A producer needs one of database and check.",
                remedy="Give the database of the business rows; where there is none, a function"
                " that says how a transaction ended.",
                key="database",
            )
        if log_retention_ms < 1:
            raise ConfigurationError(
                f"log_retention_ms is {log_retention_ms}.",
                remedy="Give at least the pipeline's half_retention_ms.",
                key="log_retention_ms",
            )
        self._database: SessionDatabase | None = None
        self.log: TransactionLog | None = None
        self.listener: LogListener | CheckListener
        if check is not None:
            self.listener = CheckListener(check)
        else:
            self._database = database_of(database)
            self.log = TransactionLog(self._database, table_name)
            self.listener = LogListener(self.log)
        self.producer_group = group
        self.counters = Counters(options.get("on_event"))
        self._serializer = serializer
        self._retention_ms = log_retention_ms
        self._lock = threading.Lock()
        core = SessionCore(
            group,
            bootstrap_servers=bootstrap_servers,
            transaction_listener=self.listener,
            log=self.log,
            **options,
        )
        core.counters = self.counters
        self._core: Core = core
        self._cleaner: LogCleaner | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def open(self) -> None:
        """Connect to Kafka and begin to answer checks; the first send would do it otherwise.

        Raises:
            LifeCycleError: it is closed; another producer of the group runs in this process; or the
                process was forked while a producer ran.
            BrokerError: Kafka can't be reached or is not set up.
            PrerequisiteError: the process can start no more threads, or gevent replaced them.
        """
        require_no_parents()
        with self._lock:
            if self._core.service_state is ServiceState.RUNNING:
                return
            self._core.start()
            if self.log is not None:
                self._cleaner = LogCleaner(self.log, self._retention_ms)

    def close(self) -> int:
        """Stop taking messages, wait for transactions under way, close.

        Returns:
            How many messages and check answers were left; checks ask how their transactions ended.
        """
        if self._cleaner is not None:
            self._cleaner.stop()
        return self._core.shutdown()

    def send_by(self, core: Core) -> None:
        """Replace Kafka in a test; `checkback.testing.FakeCheckService` does so."""
        self._core = core

    def create_table(self) -> None:
        """Create the transaction log's table and its index unless they exist.

        Raises:
            ConfigurationError: the producer has no database.
        """
        log, database = self._require_log()
        database.create_table(log.table_name)

    def forget_before(self, written_before_ms: float) -> int:
        """Delete rows of the transaction log from before that time; return how many.

        A running producer does it by itself. A row is needed as long as a check may come: at least
        the pipeline's half_retention_ms.

        Args:
            written_before_ms: milliseconds since the epoch.

        Raises:
            ConfigurationError: the producer has no database.
        """
        return self._require_log()[0].forget_before(written_before_ms)

    def send(
        self,
        topic: str,
        body: Any,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        *,
        session: InTransaction | Transaction | None = None,
    ) -> SentMessage:
        """Send a message with the database transaction that a session is in.

        It returns at once. The commit waits until Kafka has the half messages of the transaction's
        sends; it raises a SendError, and nothing commits, if one can't be stored.

        Args:
            topic: where the message goes.
            body: bytes as they are; what the serializer takes; None for a tombstone.
            key: the Kafka record key.
            headers: the message's properties, one Kafka header each.
            session: an open transaction. The message shares the fate of the savepoint it is in.
                With Django it is left out.

        Raises:
            ConfigurationError: the session's transactions can't have messages.
            InvalidMessageError: the message can't be sent as it is; nothing was sent.
            NotFoundError: its topic does not exist; nothing was sent. In an event loop the commit
                raises it.
            LifeCycleError: the producer is closed or was open when this process was forked, or the
                transaction is being committed.
            BrokerError: Kafka can't be reached, or does not take the message.
        """
        message = message_of(topic, body, key, headers, self._serializer)
        core = self._core
        if core.service_state is ServiceState.CREATE_JUST:
            self.open()
        joined = self._join(session)
        sent = core.begin(message)
        if joined.stores_at_once:
            sent.store(core.perform)
        elif not _in_event_loop():
            sent.send_half(core.perform)
        joined.add(core, sent)
        return sent

    @contextmanager
    def transaction(self, connection: Any = None) -> Iterator[Transaction]:
        """Enclose a transaction of a plain connection, or one that no database knows.

        With a connection of a DB-API driver, the end of the block waits for the half messages,
        writes their rows and commits; what the block raises rolls back. All messages share the
        transaction's fate, whatever the SQL does with savepoints.

        Without a connection, ``check`` says how a transaction ended. Each send waits until Kafka
        has its half message. At the end of the block all messages are delivered. If the block
        raises, the function is asked later how its transaction ended.

        Args:
            connection: an open connection to the producer's database.

        Raises:
            ConfigurationError: the producer has another kind of database, or the connection commits
                each statement by itself.
            SendError: a half message could not be stored; nothing was committed.
        """
        if isinstance(self._database, DbApiDatabase) and connection is not None:
            with committing(connection) as joined:
                yield Transaction(joined, self)
            return
        if self._database is not None or connection is not None:
            raise ConfigurationError(
                "transaction() is for DB-API connections, and for producers without a database.",
                remedy="Give send() the session; with Django use `with producer.atomic()`.",
            )
        joined = Joined(stores_at_once=True)
        try:
            yield Transaction(joined, self)
        except BaseException as error:
            joined.end(UNKNOWN, one_line(error))
            raise
        joined.end(COMMIT)

    def atomic(self) -> AbstractContextManager[None]:
        """Enclose a block of Django, as ``transaction.atomic`` does.

        The end of the outermost block waits for the half messages of all sends together. In a plain
        ``atomic`` each send waits for its own.

        Raises:
            ConfigurationError: the producer's database is not Django's.
        """
        atomic = getattr(self._database, "atomic", None)
        if atomic is None:
            raise ConfigurationError(
                "atomic() is for Django.", remedy="Make the producer with database=connection."
            )
        block: AbstractContextManager[None] = atomic()
        return block

    def _join(self, session: InTransaction | Transaction | None) -> Joined:
        if isinstance(session, Transaction):
            if session.producer is not self:
                raise ConfigurationError(
                    "The transaction is of another producer, whose checks would not know of it.",
                    remedy="Send by the producer whose transaction() encloses the block.",
                )
            return session.joined
        return self._require_log()[1].join(session)

    def _require_log(self) -> tuple[TransactionLog, SessionDatabase]:
        if self.log is None or self._database is None:
            raise ConfigurationError(
                "The producer has no database.",
                remedy="Make it with database=, or send in `with producer.transaction()`.",
                key="database",
            )
        return self.log, self._database


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
