"""Messages in the caller's database transaction: all are delivered, or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import IntegrityError, InvalidRequestError, OperationalError
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.unit.client.producer_playing import Clients, kafka

from checkback.client import LocalTransactionState, MessageExt, Producer
from checkback.client.sessions import sqlalchemy as sessions
from checkback.client.sessions.check_listeners import CheckListener
from checkback.client.sessions.core import SessionCore
from checkback.client.sessions.databases import database_of
from checkback.client.sessions.joined import Joined
from checkback.client.sessions.log_table import LogCleaner, TransactionLog
from checkback.client.sessions.sqlalchemy import EngineDatabase
from checkback.client.sessions.values import message_of
from checkback.protocol.errors import (
    ConfigurationError,
    InvalidMessageError,
    LifeCycleError,
    NotFoundError,
    SendError,
)
from checkback.testing.waiting import wait_until

__all__ = ["kafka"]
COMMIT, ROLLBACK = LocalTransactionState.COMMIT_MESSAGE, LocalTransactionState.ROLLBACK_MESSAGE
HASTY: Any = {"send_msg_timeout_ms": 100, "shutdown_timeout_ms": 100}
STATES = {b"8": "commit", b"12": "rollback", b"0": "unknown"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An SQLite whose savepoints work, as SQLAlchemy's documents set it up."""
    made = create_engine(f"sqlite:///{tmp_path / 'orders.db'}", connect_args={"timeout": 0.2})

    @event.listens_for(made, "connect")
    def _(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(made, "begin")
    def _(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    with made.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    yield made
    made.dispose()


@pytest.fixture
def producer(engine: Engine, kafka: list[Clients]) -> Iterator[Producer]:
    made = Producer("g", bootstrap_servers="fake", database=engine)
    made.create_table()
    made.create_table()  # again: no effect
    yield made
    for one in kafka:
        for halves in one.halves:
            halves.is_silent = False
    made.close()


def ops(kafka: list[Clients]) -> dict[str, str]:
    """Return what the op of each transaction id says."""
    return {
        dict(op["headers"])["UNIQ_KEY"].decode(): STATES[dict(op["headers"])["COMMIT_OR_ROLLBACK"]]
        for one in kafka
        for producer in one.ops
        for op in producer.sent
    }


def numbers(engine: Engine, statement: str = "SELECT id FROM orders ORDER BY 1") -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text(statement)).scalars())


def logged(engine: Engine) -> set[str]:
    return set(numbers(engine, "SELECT transaction_id FROM checkback_transaction"))


def order(target: Session | Connection, number: int) -> None:
    target.execute(text("INSERT INTO orders VALUES (:id)"), {"id": number})


def outer(target: Any) -> Connection | None:
    """Return the connection that a session was bound to: its transaction is not the session's."""
    bind = getattr(target, "bind", None)
    return bind if isinstance(bind, Connection) else None


def commit(target: Any) -> None:
    target.commit()
    if (connection := outer(target)) is not None:
        connection.commit()


def close(target: Any) -> None:
    target.close()
    if (connection := outer(target)) is not None:
        connection.close()


Opened = Callable[[Engine], Any]
TARGETS: dict[str, Opened] = {
    "session": Session,
    "sessionmaker": lambda engine: sessionmaker(engine)(),
    "scoped": lambda engine: scoped_session(sessionmaker(engine)),
    "connection": lambda engine: engine.connect(),
    "session on a connection": lambda engine: Session(bind=engine.connect()),
}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Any]:
    made = TARGETS[request.param](engine)
    yield made
    close(made)


@pytest.mark.parametrize("sends", [1, 3, 250])
def test_what_is_sent_before_a_commit_is_delivered(
    target: Any, sends: int, engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    order(target, 1)
    sent = [producer.send("t", b"x", session=target) for _ in range(sends)]
    assert ops(kafka) == {}
    assert logged(engine) == set()
    commit(target)

    ids = {one.transaction_id for one in sent}
    assert ops(kafka) == dict.fromkeys(ids, "commit")
    assert logged(engine) == ids
    assert numbers(engine) == [1]
    assert all(one.result.local_transaction_state is COMMIT for one in sent if one.result)
    assert [one.result.queue_offset for one in sent if one.result] == [7] * sends


def test_two_transactions_of_one_connection_are_two(
    engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    with engine.connect() as connection:
        first = producer.send("t", b"1", session=connection)
        connection.commit()
        second = producer.send("t", b"2", session=connection)
        connection.rollback()
        third = producer.send("t", b"3", session=connection)
        connection.commit()

    said = [ops(kafka)[one.transaction_id] for one in (first, second, third)]
    assert said == ["commit", "rollback", "commit"]


def fail(target: Any) -> None:
    with suppress(IntegrityError):
        order(target, 1)
    target.rollback()


@pytest.mark.parametrize("end", [close, fail, lambda target: target.rollback()])
def test_what_does_not_commit_is_never_delivered(
    end: Callable[[Any], None],
    target: Any,
    engine: Engine,
    producer: Producer,
    kafka: list[Clients],
) -> None:
    order(target, 1)
    sent = producer.send("t", b"x", session=target)
    end(target)
    if (connection := outer(target)) is not None:
        connection.close()

    wait_until(lambda: ops(kafka) == {sent.transaction_id: "rollback"})
    assert (numbers(engine), logged(engine)) == ([], set())
    assert producer.log is not None
    assert producer.log.outcome(sent.transaction_id) is ROLLBACK


@pytest.mark.parametrize("begun_before", [False, True])
@pytest.mark.parametrize("kind", ["session", "connection", "session on a connection"])
def test_a_savepoint_takes_back_what_was_sent_inside_it(
    kind: str, begun_before: bool, engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    target = TARGETS[kind](engine)
    sent: dict[str, Any] = {}

    def send(name: str) -> None:
        sent[name] = producer.send("t", b"x", session=target)

    if not begun_before:
        send("before")
    with suppress(RuntimeError), target.begin_nested():
        order(target, 1)
        send("taken back")
        with target.begin_nested():
            order(target, 2)
            send("taken back with it")
        raise RuntimeError
    with target.begin_nested():
        order(target, 3)
        send("kept")
        with suppress(RuntimeError), target.begin_nested():
            order(target, 4)
            send("taken back inside")
            raise RuntimeError
    send("after")
    commit(target)

    wait_until(lambda: len(ops(kafka)) == len(sent))
    said = {name: ops(kafka)[one.transaction_id] for name, one in sent.items()}
    assert said == {name: "rollback" if "back" in name else "commit" for name in sent}
    assert logged(engine) == {sent[name].transaction_id for name in sent if "back" not in name}
    assert numbers(engine) == [3]
    target.close()


@pytest.mark.parametrize("mode", ["create_savepoint", "rollback_only"])
def test_a_session_on_a_connection_takes_back_what_was_sent_before_its_first_statement(
    mode: Any, engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    with engine.connect() as connection:
        transaction = connection.begin()
        session = Session(connection, join_transaction_mode=mode)
        sent = producer.send("t", b"x", session=session)
        session.rollback()
        with suppress(InvalidRequestError):  # where the session has rolled it back
            transaction.commit()
    wait_until(lambda: ops(kafka) == {sent.transaction_id: "rollback"})
    assert logged(engine) == set()


def test_a_savepoint_counts_once_whatever_options_an_engine_has(
    engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    with engine.execution_options(own=1).connect() as connection:
        kept = producer.send("t", b"kept", session=connection)
        savepoint = connection.begin_nested()
        producer.send("t", b"taken back", session=connection)
        with engine.connect() as other:  # its first message
            producer.send("t", b"of another", session=other)
        savepoint.rollback()
        connection.commit()
    assert ops(kafka)[kept.transaction_id] == "commit"
    assert logged(engine) == {kept.transaction_id}


def test_listeners_of_the_application_hear_a_commit_once(
    engine: Engine, producer: Producer
) -> None:
    heard: list[Connection] = []
    event.listen(engine, "commit", heard.append)
    with Session(engine) as session, session.begin():
        order(session, 1)
        producer.send("t", b"x", session=session)
    assert len(heard) == 1


def test_savepoints_that_end_out_of_order_keep_the_transaction_from_its_commit(
    engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    with engine.connect() as connection:
        producer.send("t", b"x", session=connection)
        outer = connection.begin_nested()
        connection.begin_nested()
        with pytest.warns(match="already deassociated"):
            outer.rollback()
        with pytest.raises(LifeCycleError, match="from the inside out"):
            connection.commit()
    wait_until(lambda: set(ops(kafka).values()) == {"rollback"})


def test_a_half_that_can_not_be_stored_keeps_the_transaction_from_its_commit(
    target: Any, engine: Engine, kafka: list[Clients]
) -> None:
    producer = Producer("g", bootstrap_servers="fake", database=engine, **HASTY)
    producer.create_table()
    order(target, 1)
    stored = producer.send("t", b"x", session=target)
    stored.store(producer._core.perform)
    kafka[0].halves[0].is_silent = True
    doubtful = producer.send("t", b"x", session=target)
    with pytest.raises(SendError):
        commit(target)
    target.rollback()

    wait_until(lambda: ops(kafka).get(stored.transaction_id) == "rollback")
    core = producer._core
    assert isinstance(core, SessionCore)
    assert doubtful.transaction_id in core._halves._in_doubt
    close(target)
    # Nothing of it is left behind on the connection for the next transaction.
    with engine.begin() as connection:
        order(connection, 2)
    assert (numbers(engine), logged(engine)) == ([2], set())
    producer.close()


def test_a_failed_commit_leaves_nothing_on_a_connection_that_goes_on(
    engine: Engine, kafka: list[Clients]
) -> None:
    producer = Producer("g", bootstrap_servers="fake", database=engine, **HASTY)
    producer.create_table()
    with producer, engine.connect() as connection:
        kafka[0].halves[0].is_silent = True
        order(connection, 1)
        producer.send("t", b"x", session=connection)
        with pytest.raises(SendError):
            connection.commit()
        connection.rollback()
        order(connection, 2)
        connection.commit()
    assert numbers(engine) == [2]


def test_a_commit_whose_confirmation_was_lost_is_answered_by_a_check(
    target: Any, engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    def commit_and_lose(connection: Any) -> None:
        connection.commit()
        raise OperationalError("COMMIT", {}, RuntimeError("server closed the connection"))

    order(target, 1)
    sent = producer.send("t", b"x", session=target)
    dialect: Any = engine.dialect
    dialect.do_commit = commit_and_lose
    with pytest.raises(OperationalError):
        commit(target)
    target.rollback()
    del dialect.do_commit

    assert ops(kafka) == {sent.transaction_id: "unknown"}
    assert producer.log is not None
    assert producer.log.outcome(sent.transaction_id) is COMMIT


def test_a_commit_that_comes_after_a_checks_answer_fails(
    target: Any, engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    sent = producer.send("t", b"x", session=target)
    target.rollback()  # SQLite: its lock would keep the barrier away
    late = producer.send("t", b"x", session=target)
    if isinstance(target, Session):
        target.flush()
    assert producer.log is not None
    assert producer.log.outcome(late.transaction_id) is ROLLBACK

    with pytest.raises(IntegrityError) as raised:
        commit(target)

    assert "a check has answered rollback" in raised.value.__notes__[0]
    wait_until(lambda: ops(kafka).get(late.transaction_id) == "rollback")
    assert sent.transaction_id not in logged(engine)


def test_an_op_that_fails_costs_neither_the_commit_nor_the_other_ops(
    engine: Engine, producer: Producer, kafka: list[Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(engine) as session, session.begin():
        order(session, 1)
        failing, good = (producer.send("t", b"x", session=session) for _ in range(2))
        monkeypatch.setattr(failing, "end", lambda *_: 1 / 0)
    assert ops(kafka) == {good.transaction_id: "commit"}
    assert numbers(engine) == [1]
    monkeypatch.undo()
    failing.end(COMMIT)


def test_a_message_sent_while_the_commit_flushes_is_part_of_it(
    engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    session = Session(engine)

    @event.listens_for(session, "before_commit")
    def _(session: Session) -> None:
        producer.send("t", b"x", session=session)

    order(session, 1)
    session.commit()
    assert list(ops(kafka).values()) == ["commit"]
    assert len(logged(engine)) == 1


def test_transactions_that_can_have_no_messages_are_refused(
    engine: Engine, producer: Producer, kafka: list[Clients], tmp_path: Path
) -> None:
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    of_one_table = Session(binds={Table("things", MetaData()): other})
    alone = other.execution_options(isolation_level="AUTOCOMMIT")
    by_itself = engine.execution_options(isolation_level="AUTOCOMMIT")
    refused: dict[str, Any] = {
        "two-phase": Session(engine, twophase=True),
        "AUTOCOMMIT": Session(by_itself),
        "producer's database is": Session(other),
        "producer's database": alone.connect(),
        "other databases": of_one_table,
        "session is a dict": {},
        "session is a NoneType": None,
    }
    for said, target in refused.items():
        with pytest.raises(ConfigurationError, match=said):
            producer.send("t", b"x", session=target)
        if hasattr(target, "close"):
            target.close()
    assert [half for one in kafka for made in one.halves for half in made.sent] == []
    second = Producer("h", bootstrap_servers="fake", database=other)
    with Session(engine) as session:
        producer.send("t", b"x", session=session)
        with pytest.raises(ConfigurationError, match="producer's database is"):
            second.send("t", b"x", session=session)
    second.close()
    other.dispose()


def test_a_message_that_can_not_be_sent_costs_its_transaction_nothing(
    engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    producer.open()
    kafka[0].opened_admin.missing.add("gone")
    with Session(engine) as session, session.begin():
        good = producer.send("t", b"x", session=session)
        with pytest.raises(NotFoundError):
            producer.send("gone", b"x", session=session)
        with pytest.raises(InvalidMessageError, match="serializer"):
            producer.send("t", object(), session=session)
        with pytest.raises(InvalidMessageError):
            producer.send("t", None, session=session)
        with pytest.raises(InvalidMessageError, match="not JSON serializable"):
            producer.send("t", {"amount": object()}, session=session)
    assert ops(kafka) == {good.transaction_id: "commit"}


class Amount:
    def __str__(self) -> str:
        return "42 EUR"


@pytest.mark.parametrize(
    ("body", "serializer", "sent"),
    [
        (b"\x00\x00\x00\x00\x07avro", None, b"\x00\x00\x00\x00\x07avro"),
        (b"\x00\x00\x00\x00\x07avro", lambda _: b"no", b"\x00\x00\x00\x00\x07avro"),
        ("42 €", None, "42 €".encode()),
        ({"amount": "42 €"}, None, '{"amount":"42 €"}'.encode()),
        ({"amount": 42}, lambda body: repr(body).encode(), b"{'amount': 42}"),
        (Amount(), lambda body: str(body).encode(), b"42 EUR"),
        (None, lambda _: b"no", None),
    ],
)
def test_values(body: Any, serializer: Any, sent: bytes | None) -> None:
    headers: dict[str, str | bytes] = {"text": "ä", "bytes": b"\xff"}
    message = message_of("t", body, "ä", headers, serializer)
    assert (message.body, message.record_key()) == (sent, "ä".encode())
    assert message.properties == headers


def test_headers_are_those_of_the_send() -> None:
    headers: dict[str, str | bytes] = {"turn": "1"}
    message = message_of("t", b"x", None, headers, None)
    headers["turn"] = "2"
    assert message.properties == {"turn": "1"}


@pytest.mark.parametrize(
    ("body", "key"), [({"a": float("nan")}, None), ("\ud800", None), (b"x", "\ud800")]
)
def test_what_is_no_json_and_no_text_is_refused(body: Any, key: Any) -> None:
    with pytest.raises(InvalidMessageError):
        message_of("t", body, key, None, None)


def test_without_a_database_a_function_is_asked(kafka: list[Clients]) -> None:
    producer = Producer("g", bootstrap_servers="fake", check=lambda _: True)
    sent: list[Any] = []
    with producer:
        with producer.transaction() as transaction:
            sent.append(producer.send("t", b"x", session=transaction))
        with suppress(RuntimeError), producer.transaction() as transaction:
            sent.append(producer.send("t", b"x", session=transaction))
            raise RuntimeError
        with pytest.raises(ConfigurationError, match="no database"):
            producer.send("t", b"x", session=object())  # type: ignore[arg-type]
    assert [ops(kafka)[one.transaction_id] for one in sent] == ["commit", "unknown"]


@pytest.mark.parametrize(
    ("answer", "state"),
    [(True, COMMIT), (False, ROLLBACK), (None, LocalTransactionState.UNKNOW), (COMMIT, COMMIT)],
)
def test_what_a_check_function_answers(answer: Any, state: LocalTransactionState) -> None:
    assert CheckListener(lambda _: answer).check_local_transaction(MessageExt("t", b"x")) is state


def test_a_check_function_that_answers_something_else_has_failed() -> None:
    listener = CheckListener(lambda _: "yes")  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="True, False or None"):
        listener.check_local_transaction(MessageExt("t", b"x"))


def test_what_has_ended_takes_no_message(kafka: list[Clients], producer: Producer) -> None:
    joined = Joined()
    joined.end(COMMIT)
    producer.open()
    core = producer._core
    assert isinstance(core, SessionCore)
    sent = core.begin(message_of("t", b"x", None, None, None))
    sent.store(core.perform)
    with pytest.raises(LifeCycleError, match="before the commit"):
        joined.add(core, sent)
    wait_until(lambda: ops(kafka) == {sent.transaction_id: "rollback"})


@pytest.mark.parametrize("given", [{}, {"database": 1}, {"check": print, "database": 1}])
def test_a_producer_needs_what_answers_checks(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="database"):
        Producer("g", bootstrap_servers="fake", **given)


async def awaited_check(_: MessageExt) -> bool:
    return True


@pytest.mark.parametrize("check", [awaited_check, 1])
def test_a_check_that_no_thread_can_call_is_refused(check: Any) -> None:
    with pytest.raises(ConfigurationError, match="check is a"):
        Producer("g", bootstrap_servers="fake", check=check)


def test_a_log_that_would_keep_nothing_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="log_retention_ms"):
        Producer("g", bootstrap_servers="fake", database=engine, log_retention_ms=0)


def test_a_transaction_of_another_producer_is_refused(kafka: list[Clients]) -> None:
    one, other = (Producer(name, bootstrap_servers="fake", check=print) for name in "gh")
    refused = pytest.raises(ConfigurationError, match="another producer")
    with one, other, one.transaction() as transaction, refused:
        other.send("t", b"x", session=transaction)


@pytest.mark.parametrize("given", [object(), 1, text("SELECT 1")])
def test_what_is_no_database_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="database is a"):
        database_of(given)


def test_a_closed_producer_takes_no_message(engine: Engine, producer: Producer) -> None:
    producer.close()
    with pytest.raises(LifeCycleError), Session(engine) as session:
        producer.send("t", b"x", session=session)


def test_threads_open_a_producer_once(
    engine: Engine, producer: Producer, kafka: list[Clients]
) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with Session(engine) as session:
                producer.send("t", b"x", session=session)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert failed == []
    assert len(kafka[0].ops) == 1


def test_an_older_table_gets_its_index(engine: Engine, kafka: list[Clients]) -> None:
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE TABLE checkback_transaction (transaction_id VARCHAR(64) PRIMARY KEY,"
                " state SMALLINT NOT NULL, written_at_ms BIGINT NOT NULL)"
            )
        )
    Producer("g", bootstrap_servers="fake", database=engine).create_table()
    indexes = numbers(engine, "SELECT name FROM sqlite_master WHERE type = 'index'")
    assert "checkback_transaction_written_at" in indexes


def test_a_table_that_another_process_creates_meanwhile_is_no_failure(
    engine: Engine, kafka: list[Clients], monkeypatch: pytest.MonkeyPatch
) -> None:
    create, calls = sessions.create_log_table, list[str]()

    def create_after_another(table: Table, bind: Connection) -> None:
        calls.append(table.name)
        if len(calls) == 1:
            raise OperationalError("CREATE TABLE", None, Exception("it exists"))
        create(table, bind)

    monkeypatch.setattr(sessions, "create_log_table", create_after_another)
    producer = Producer("g", bootstrap_servers="fake", database=engine)
    producer.create_table()
    assert logged(engine) == set()
    calls[:] = []
    monkeypatch.setattr(sessions, "CREATING_TRIES", 1)
    with pytest.raises(OperationalError):
        producer.create_table()


def test_old_rows_are_deleted(
    engine: Engine, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 1_000.0
    log = TransactionLog(EngineDatabase(engine), clock_ms=lambda: now_ms)
    for name in ("old", "young"):
        with engine.begin() as connection:
            log.write(connection.exec_driver_sql, [name])
        now_ms += 1_000
    monkeypatch.setattr("checkback.client.sessions.log_table.CLEANING_PAUSE_S", 0.001)
    cleaner = LogCleaner(log, retention_ms=1_500)
    wait_until(lambda: logged(engine) == {"young"})
    cleaner.stop()
    # The clock stays: a deletion that had begun goes on after stop().
    assert producer.forget_before(now_ms + 10_000) == 1


@pytest.mark.parametrize("name", ["a b", "a.b.c", "t; DROP TABLE orders", ""])
def test_names_of_tables_are_plain(name: str, engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="table_name"):
        TransactionLog(EngineDatabase(engine), name)


@pytest.mark.parametrize(
    ("style", "statement"),
    [
        ("qmark", "(?, ?, ?), (?, ?, ?)"),
        ("pyformat", "(%s, %s, %s), (%s, %s, %s)"),
        ("numeric_dollar", "($1, $2, $3), ($4, $5, $6)"),
        ("named", "(:1, :2, :3), (:4, :5, :6)"),
    ],
)
def test_statements_have_the_drivers_marks(style: str, statement: str, engine: Engine) -> None:
    ran: list[str] = []
    log = TransactionLog(EngineDatabase(engine))
    log.write(lambda sql, _: ran.append(sql), ["a", "b"], paramstyle=style)
    assert ran[0].endswith(f"VALUES {statement}")
