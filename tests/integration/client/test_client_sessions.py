"""Messages in the caller's database transaction, on a real broker and a real database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from tests.integration.client.playing import Checkback, eventually, header

from checkback.client import LocalTransactionState, Producer, SentMessage
from checkback.client.sessions.sqlalchemy import create_log_table, log_table
from checkback.protocol import properties as names
from checkback.protocol.errors import ConfigurationError

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE


@pytest.fixture(
    params=[
        "postgres",
        *(pytest.param(one, marks=pytest.mark.nightly) for one in ("sqlite", "mariadb")),
    ]
)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'orders.db'}"
    else:
        url = request.getfixturevalue(request.param)
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
    verdicts = checkback.verdicts(len(sent))
    return [verdicts[one.transaction_id] for one in sent]


def test_ids_that_differ_in_case_alone_have_a_row_each(engine: Engine, unique: str) -> None:
    """By the default of MariaDB a check of one would be answered with the row of the other."""
    table = log_table(f"{unique}case".replace("-", "_"))
    create_log_table(table, engine)

    with engine.begin() as connection:
        for transaction_id in ("paid", "PAID"):
            connection.execute(
                table.insert(), {"transaction_id": transaction_id, "state": 1, "written_at_ms": 0}
            )


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
    if engine.dialect.name != "sqlite":  # which has one writer at a time
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


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_async_session_on_postgresql(
    driver: str, checkback: Checkback, postgres: str, unique: str
) -> None:
    pytest.importorskip(driver)
    sent: list[SentMessage] = []

    async def orders() -> None:
        engine = create_async_engine(postgres.replace("+psycopg", f"+{driver}"))
        producer = Producer(
            checkback.group,
            bootstrap_servers=checkback.bootstrap_servers,
            topic_prefix=checkback.prefix,
            database=engine,
            table_name=f"{unique}async".replace("-", "_"),
        )
        producer.create_table()
        async with producer:
            async with AsyncSession(engine) as session, session.begin():
                sent.extend(producer.send("paid", b"x", session=session) for _ in range(3))
                async with session.begin_nested():
                    sent.append(producer.send("paid", b"x", session=session))
            async with AsyncSession(engine) as session:
                await session.execute(text("SELECT 1"))
                sent.append(producer.send("paid", b"x", session=session))
                await asyncio.sleep(0.2)
            alone = engine.execution_options(isolation_level="AUTOCOMMIT")
            async with alone.connect() as connection:
                with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
                    producer.send("paid", b"x", session=connection)
            assert producer.log is not None
            outcomes = [producer.log.outcome(one.transaction_id) for one in sent]
            assert outcomes == [COMMIT] * 4 + [ROLLBACK]
        await engine.dispose()

    asyncio.run(orders())
    assert said(checkback, sent) == ["8"] * 4 + ["12"]


FORKING = """
import os, sys
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from checkback.client import Producer
from checkback.protocol.errors import LifeCycleError

servers, prefix, url = sys.argv[1:]
engine = create_engine(url)
producer = Producer(
    prefix + "forks", bootstrap_servers=servers, topic_prefix=prefix, database=engine
)
producer.create_table()


def send(body):
    with Session(engine) as session, session.begin():
        producer.send("paid", body, session=session)


def fork(body):
    child = os.fork()
    if not child:
        send(body)
        sys.exit()
    return child


children = [fork(b"child 1"), fork(b"child 2")]
send(b"parent")
child = os.fork()
if not child:
    for use in (lambda: send(b"late"), producer.open, Producer(
        prefix + "other", bootstrap_servers=servers, topic_prefix=prefix, database=engine
    ).open):
        try:
            use()
        except LifeCycleError as error:
            assert "forked while a producer ran" in str(error)
        else:
            sys.exit("A child of an open producer could use one.")
    sys.exit(producer.close())
children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_children_open_a_producer_of_their_own_unless_their_parents_was_open_at_the_fork(
    checkback: Checkback, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'orders.db'}"
    command = [sys.executable, "-c", FORKING, checkback.bootstrap_servers, checkback.prefix, url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(checkback.halves(3)) == 3
    assert {header(op, names.COMMIT_OR_ROLLBACK) for op in checkback.ops(3)} == {"8"}
    assert len(checkback.ops(3)) == 3
