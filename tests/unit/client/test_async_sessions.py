"""Messages in the database transaction of a coroutine: all are delivered, or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from tests.unit.client.producer_playing import Clients, in_a_loop, kafka
from tests.unit.client.test_sessions import COMMIT, HASTY, ROLLBACK, ops

from checkback.client import Producer
from checkback.protocol.errors import ConfigurationError, NotFoundError, SendError

__all__ = ["kafka"]
pytest.importorskip("aiosqlite")


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[tuple[AsyncEngine, Producer]]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'orders.db'}")

    @event.listens_for(engine.sync_engine, "connect")
    def _(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine.sync_engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    producer = Producer("g", bootstrap_servers="fake", database=engine, **options)
    producer.create_table()
    async with producer:
        yield engine, producer
    await engine.dispose()


async def order(target: Any, number: int) -> None:
    await target.execute(text("INSERT INTO orders VALUES (:id)"), {"id": number})


async def numbers(engine: AsyncEngine) -> list[int]:
    async with engine.connect() as connection:
        return list((await connection.execute(text("SELECT id FROM orders ORDER BY 1"))).scalars())


async def until(holds: Any) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come true")


@in_a_loop
async def test_a_session_without_a_connection_takes_messages(
    kafka: list[Clients], tmp_path: Path
) -> None:
    async with opened(tmp_path) as (engine, producer):
        async with AsyncSession(engine) as session, session.begin():
            sent = [producer.send("t", b"x", session=session) for _ in range(3)]
            assert ops(kafka) == {}
        assert ops(kafka) == {one.transaction_id: "commit" for one in sent}
        assert producer.log is not None
        answers = [producer.log.outcome(one.transaction_id) for one in sent]
        assert answers == [COMMIT] * 3


@in_a_loop
async def test_sessions_that_a_send_can_not_follow_are_refused(
    kafka: list[Clients], tmp_path: Path
) -> None:
    async with opened(tmp_path) as (engine, producer):
        alone = engine.execution_options(isolation_level="AUTOCOMMIT")
        async with AsyncSession(alone) as session:
            with pytest.raises(ConfigurationError, match="by itself"):
                producer.send("t", b"x", session=session)
        async with engine.connect() as connection:
            await connection.begin()
            session = AsyncSession(connection, join_transaction_mode="create_savepoint")
            with pytest.raises(ConfigurationError, match="Call `await session"):
                producer.send("t", b"x", session=session)
            await session.rollback()
            await session.connection()
            sent = producer.send("t", b"x", session=session)
            await session.rollback()
            await connection.commit()
        assert "commit" not in ops(kafka).values()
        assert producer.log is not None
        assert await asyncio.to_thread(producer.log.outcome, sent.transaction_id) is ROLLBACK


@in_a_loop
async def test_the_fates_of_an_async_session(kafka: list[Clients], tmp_path: Path) -> None:
    async with opened(tmp_path) as (engine, producer):
        fates: dict[str, Any] = {}
        async with AsyncSession(engine) as session:
            fates["closed"] = producer.send("t", b"x", session=session)
        async with AsyncSession(engine) as session:
            await order(session, 1)
            fates["rolled back"] = producer.send("t", b"x", session=session)
            await session.rollback()
            await order(session, 2)
            fates["committed"] = producer.send("t", b"x", session=session)
            await session.commit()
        with suppress(IntegrityError):
            async with AsyncSession(engine) as session, session.begin():
                fates["failed"] = producer.send("t", b"x", session=session)
                await order(session, 2)
        async with engine.begin() as connection:
            fates["connection, committed"] = producer.send("t", b"x", session=connection)
        with suppress(RuntimeError):
            async with engine.begin() as connection:
                fates["connection, failed"] = producer.send("t", b"x", session=connection)
                raise RuntimeError
        async with AsyncSession(engine) as session, session.begin():
            fates["run_sync, committed"] = await session.run_sync(
                lambda one: producer.send("t", b"x", session=one)
            )
        # A half that no one waited for has its op once its report comes.
        await until(lambda: len(ops(kafka)) >= 3)
        said = {name: ops(kafka).get(one.transaction_id) for name, one in fates.items()}
        assert {name for name in said if said[name] == "commit"} == {
            name for name in fates if "committed" in name
        }
        assert await numbers(engine) == [2]
        assert producer.log is not None
        assert producer.log.outcome(fates["closed"].transaction_id) is ROLLBACK


@pytest.mark.parametrize("connects", [False, True])
@in_a_loop
async def test_savepoints_of_an_async_session(
    kafka: list[Clients], tmp_path: Path, connects: bool
) -> None:
    async with opened(tmp_path) as (engine, producer), AsyncSession(engine) as session:
        sent: dict[str, Any] = {}

        async def send(name: str) -> None:
            if connects:
                await session.execute(text("SELECT 1"))
            sent[name] = producer.send("t", b"x", session=session)

        await send("before")
        with suppress(RuntimeError):
            async with session.begin_nested():
                await send("taken back")
                async with session.begin_nested():
                    await send("taken back with it")
                raise RuntimeError
        async with session.begin_nested():
            await send("kept")
        nested = await session.begin_nested()
        await send("kept although its savepoint was left open")
        assert nested.is_active
        await session.commit()
        said = ops(kafka)
        for name, one in sent.items():
            assert (said.get(one.transaction_id) == "commit") == ("back" not in name), name


@in_a_loop
async def test_waiting_for_halves_does_not_hold_up_the_loop(
    kafka: list[Clients], tmp_path: Path
) -> None:
    async with opened(tmp_path, send_msg_timeout_ms=2_000) as (engine, producer):
        halves = kafka[0].halves[0]
        halves.is_silent = True
        session = AsyncSession(engine)
        producer.send("t", b"x", session=session)
        commit = asyncio.create_task(session.commit())
        for _ in range(20):
            await asyncio.sleep(0.005)  # the loop goes on
        assert not commit.done()
        assert ops(kafka) == {}
        halves.is_silent = False
        await commit
        assert list(ops(kafka).values()) == ["commit"]
        await session.close()


@in_a_loop
async def test_a_topic_is_asked_for_outside_the_loop(kafka: list[Clients], tmp_path: Path) -> None:
    async with opened(tmp_path) as (engine, producer):
        async with AsyncSession(engine) as session, session.begin():
            producer.send("new", b"x", session=session)
        [asked] = {thread for topic, thread in kafka[0].opened_admin.asked if topic == "new"}
        assert asked != threading.get_ident()


@in_a_loop
async def test_in_a_loop_a_missing_topic_fails_the_commit(
    kafka: list[Clients], tmp_path: Path
) -> None:
    async with opened(tmp_path) as (engine, producer):
        kafka[0].opened_admin.missing.add("gone")
        async with AsyncSession(engine) as session:
            await order(session, 1)
            producer.send("gone", b"x", session=session)
            with pytest.raises(NotFoundError):
                await session.commit()
        assert (await numbers(engine), ops(kafka)) == ([], {})


@pytest.mark.parametrize("cancels", [False, True])
@in_a_loop
async def test_a_half_that_is_not_stored_keeps_a_coroutine_from_its_commit(
    kafka: list[Clients], tmp_path: Path, cancels: bool
) -> None:
    async with opened(tmp_path, **HASTY) as (engine, producer):
        kafka[0].halves[0].is_silent = True
        session = AsyncSession(engine)
        await order(session, 1)
        producer.send("t", b"x", session=session)
        commit = asyncio.create_task(session.commit())
        if cancels:
            await asyncio.sleep(0.02)
            commit.cancel()
        with pytest.raises(asyncio.CancelledError if cancels else SendError):
            await commit
        await session.close()
        assert await numbers(engine) == []
        assert "commit" not in ops(kafka).values()


@in_a_loop
async def test_a_producer_whose_checks_could_see_rows_that_roll_back_is_refused(
    tmp_path: Path,
) -> None:
    level = "READ UNCOMMITTED"
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}", isolation_level=level)
    producer = Producer("g", bootstrap_servers="fake", database=engine)
    with pytest.raises(ConfigurationError, match=level):
        producer.create_table()
    await engine.dispose()


@in_a_loop
async def test_a_connection_whose_rollback_is_cancelled_too_is_not_used_again(
    kafka: list[Clients], tmp_path: Path
) -> None:
    """A scope of AnyIO cancels at every wait."""
    async with opened(tmp_path, **HASTY) as (engine, producer):
        kafka[0].halves[0].is_silent = True
        async with engine.connect() as connection:
            first = (await connection.get_raw_connection()).driver_connection
            await order(connection, 1)
            producer.send("t", b"x", session=connection)
            commit = asyncio.create_task(connection.commit())
            await asyncio.sleep(0.02)
            for _ in range(3):
                commit.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await commit
        async with engine.connect() as connection:
            assert (await connection.get_raw_connection()).driver_connection is not first
        assert await numbers(engine) == []


class Cut:
    """Awaits a coroutine up to one of its waits, which then ends with a cancellation."""

    def __init__(self, coroutine: Any, waits: int) -> None:
        self.coroutine = coroutine
        self.waits = waits
        self.was_cut = False

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self.coroutine.__await__()
        try:
            for _ in range(self.waits):
                yield steps.send(None)
            self.was_cut = True
            yield steps.throw(asyncio.CancelledError())
            while True:  # it rolls back
                yield steps.send(None)
        except (StopIteration, asyncio.CancelledError):
            return


@in_a_loop
async def test_a_transaction_that_is_cut_at_each_of_its_waits_is_whole_or_nothing(
    kafka: list[Clients], tmp_path: Path
) -> None:
    async with opened(tmp_path) as (engine, producer):
        ends: list[bool] = []
        for waits in count():
            sent: list[Any] = []

            async def run(number: int, sent: list[Any]) -> None:
                async with AsyncSession(engine) as session, session.begin():
                    sent.append(producer.send("t", b"x", session=session))
                    await order(session, number)
                    async with session.begin_nested():
                        sent.append(producer.send("t", b"x", session=session))
                    sent.append(producer.send("t", b"x", session=session))

            cut = Cut(run(waits, sent), waits)
            await cut
            is_booked = waits in await numbers(engine)
            assert producer.log is not None
            expected = COMMIT if is_booked else ROLLBACK
            assert {producer.log.outcome(one.transaction_id) for one in sent} <= {expected}
            said = {ops(kafka).get(one.transaction_id) for one in sent}
            assert ("rollback" if is_booked else "commit") not in said, waits
            ends.append(is_booked)
            if not cut.was_cut:
                break
        assert len(ends) > 10
        assert ends == sorted(ends)  # from one wait on, each is committed
        assert ends[-1]
