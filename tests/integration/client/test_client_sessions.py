"""Messages in the caller's database transaction, on a real broker, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session
from tests.integration.client.playing import Checkback, eventually, header

from checkback.client import LocalTransactionState, Producer, SentMessage
from checkback.protocol import properties as names

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'orders.db'}"
    else:
        url = request.getfixturevalue("postgres")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    yield engine
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE orders"))
    engine.dispose()


@pytest.fixture
def producer(checkback: Checkback, engine: Engine, unique: str) -> Iterator[Producer]:
    made = Producer(
        checkback.group,
        bootstrap_servers=checkback.bootstrap_servers,
        topic_prefix=checkback.prefix,
        database=engine,
        table_name=f"{unique}log".replace("-", "_"),
    )
    made.create_table()
    made.create_table()  # again: no effect
    with made:
        yield made


def insert(session: Session, number: int) -> None:
    session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": number})


def booked(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT id FROM orders ORDER BY 1")).scalars())


def said(checkback: Checkback, sent: list[SentMessage]) -> list[str | None]:
    """Return what the last op of each message says."""
    ops = {header(op, names.UNIQ_KEY): op for op in checkback.ops(len(sent))}
    return [header(ops[one.transaction_id], names.COMMIT_OR_ROLLBACK) for one in sent]


def test_ten_messages_share_the_fate_of_their_transaction(
    checkback: Checkback, engine: Engine, producer: Producer
) -> None:
    sent: list[SentMessage] = []
    with Session(engine) as session, session.begin():
        insert(session, 1)
        sent += [producer.send("paid", {"n": n}, f"k-{n}", session=session) for n in range(10)]
    with suppress(IntegrityError), Session(engine) as session, session.begin():
        sent += [producer.send("paid", {"n": n}, f"k-{n}", session=session) for n in range(10)]
        insert(session, 1)

    assert said(checkback, sent) == ["8"] * 10 + ["12"] * 10
    halves = {header(half, names.UNIQ_KEY): half for half in checkback.halves(20)}
    places = [(one.result.message_queue, one.result.queue_offset) for one in sent if one.result]
    assert len(set(places)) == 20
    assert [halves[one.transaction_id].key for one in sent[:2]] == [b"k-0", b"k-1"]
    assert halves[sent[0].transaction_id].value == b'{"n":0}'
    for half in halves.values():
        checkback.ask(half)
    answers = eventually(lambda: ops if len(ops := checkback.ops(40)) == 40 else None)
    by_id = {header(op, names.UNIQ_KEY): header(op, names.COMMIT_OR_ROLLBACK) for op in answers}
    assert [by_id[one.transaction_id] for one in sent] == ["8"] * 10 + ["12"] * 10


def test_a_check_waits_for_a_transaction_under_way_and_a_barrier_stops_one(
    engine: Engine, producer: Producer
) -> None:
    """The check comes after the row was written, or before."""
    log = producer.log
    assert log is not None
    session = Session(engine)
    insert(session, 1)
    late = producer.send("paid", b"x", session=session)
    if engine.dialect.name == "postgresql":  # SQLite: one writer at a time
        assert log.outcome(late.transaction_id) is ROLLBACK
        with pytest.raises(IntegrityError):
            session.commit()
    session.rollback()

    answers: list[LocalTransactionState] = []
    insert(session, 2)
    sent = producer.send("paid", b"x", session=session)
    log.write(session.connection().exec_driver_sql, ["held"])
    check = threading.Thread(target=lambda: answers.append(log.outcome("held")))
    check.start()
    check.join(0.2)
    assert answers == []
    session.commit()
    check.join(20)
    assert answers == [COMMIT]
    assert log.outcome(sent.transaction_id) is COMMIT
    assert booked(engine) == [2]
    session.close()


def test_a_connection_that_is_lost_at_the_commit(
    checkback: Checkback, postgres: str, unique: str
) -> None:
    """The server ends it before the commit; no op is sent, and the check's barrier decides."""
    engine = create_engine(postgres)
    other = create_engine(postgres)
    producer = Producer(
        checkback.group,
        bootstrap_servers=checkback.bootstrap_servers,
        topic_prefix=checkback.prefix,
        database=engine,
        table_name=f"{unique}lost".replace("-", "_"),
    )
    producer.create_table()
    with producer:
        session = Session(engine)
        server = session.scalar(text("SELECT pg_backend_pid()"))
        sent = producer.send("paid", b"x", session=session)
        log = producer.log
        assert log is not None
        write = log.write

        def write_and_lose(*given: object, **named: object) -> None:
            write(*given, **named)  # type: ignore[arg-type]
            with other.begin() as connection:
                connection.execute(text(f"SELECT pg_terminate_backend({server}, 5000)"))

        log.write = write_and_lose  # type: ignore[method-assign]
        with pytest.raises(DBAPIError):
            session.commit()
        session.rollback()
        log.write = write  # type: ignore[method-assign]

        assert said(checkback, [sent]) == ["0"]
        assert log.outcome(sent.transaction_id) is ROLLBACK
    engine.dispose()
    other.dispose()
