"""Direct delivery on a real broker: a half is visible exactly once, whoever stops or dies where.

The owner is a process of its own, and this one answers checks in its place. What the pipeline would
do is read from the topic of direct ops: the first verdict wins.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.client.direct_owner import COMMIT, POINTS, ROLLBACK
from tests.integration.client.direct_playing import Direct, place_of, read_committed
from tests.integration.client.playing import Checkback, Scripted, eventually, header
from tests.seeds import chosen_seed

from checkback.client import (
    AsyncTransactionListener,
    AsyncTransactionMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
)
from checkback.client.counters import ClientEvent
from checkback.protocol import properties as names
from checkback.protocol.records import final_parts

SCHEDULES = 50
NIGHTLY_SCHEDULES = 1_000
AT_ONCE = 4
"""A series of schedules mostly waits: for halves, sessions and fences."""
SCHEDULES_S = 800.0
"""Some four seconds each on two cores that two other test processes share."""


@pytest.fixture
def direct(checkback: Checkback, tmp_path: Path) -> Iterator[Direct]:
    made = Direct(checkback, tmp_path)
    yield made
    made.close()


def test_a_committed_message_is_visible_when_the_call_returns(
    checkback: Checkback, listener: Scripted
) -> None:
    producer = checkback.producer(listener, direct_delivery=True, wait_for_delivery=True)

    result = producer.send_message_in_transaction(
        Message("paid", b"body", keys="o-1", tags="t", properties={"a": "b"}, queue_id=3)
    )

    assert result.delivered is True
    finals = read_committed(checkback.bootstrap_servers, "paid")
    (final,) = [one for one in finals if header(one, names.UNIQ_KEY) == result.transaction_id]
    (half,) = checkback.halves(1)
    assert (final.partition, final.key, final.value) == (3, b"o-1", b"body")
    assert final.timestamp == half.timestamp
    assert final.headers == final_parts(half.headers, half.partition, half.offset).headers
    (op,) = read_committed(checkback.bootstrap_servers, checkback.names.direct_op)
    assert (op.partition, int(op.value)) == (half.partition, half.offset)
    assert header(op, names.COMMIT_OR_ROLLBACK) == "9"
    assert checkback.ops() == []
    assert producer.counters.snapshot()[ClientEvent.DIRECT_DELIVERED] == 1


def test_a_rollback_and_an_unknown_close_their_halves(
    checkback: Checkback, listener: Scripted
) -> None:
    states = iter([LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.UNKNOW])
    listener.execute = lambda *_: next(states)
    producer = checkback.producer(listener, direct_delivery=True)

    for _ in range(2):
        producer.send_message_in_transaction(Message("paid", b"x", key=b"k"))

    ops = eventually(
        lambda: found if len(found := checkback.read(checkback.names.direct_op, 2)) == 2 else None
    )
    assert {header(op, names.COMMIT_OR_ROLLBACK) for op in ops} == {"0", "12"}
    halves = checkback.halves(2)
    assert {header(op, names.DIRECT_CLOSED) for op in ops} == {
        header(half, names.DIRECT_ID) for half in halves
    }


def test_without_the_topic_of_direct_ops_messages_go_the_checked_way(
    bootstrap_servers: str, unique: str, listener: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    older = Checkback(bootstrap_servers, unique)
    older.create_topics(without=(older.names.direct_op,))
    with caplog.at_level(logging.WARNING):
        producer = older.producer(listener, direct_delivery=True)
    for _ in range(2):
        producer.send_message_in_transaction(Message("paid", b"x"))

    assert len(older.ops(2)) == 2
    assert [header(half, names.DIRECT_ID) for half in older.halves(2)] == [None, None]
    assert sum("go the checked way" in record.message for record in caplog.records) == 1
    producer.shutdown()


def test_a_compacted_topic_takes_no_direct_message_without_a_key(
    checkback: Checkback, listener: Scripted
) -> None:
    topic = f"{checkback.prefix}latest"
    checkback.create_topic(topic, {"cleanup.policy": "compact"})
    producer = checkback.producer(listener, direct_delivery=True, wait_for_delivery=True)

    with_key = producer.send_message_in_transaction(Message(topic, b"x", key=b"k"))
    without = producer.send_message_in_transaction(Message(topic, b"x"))

    assert (with_key.delivered, without.delivered) == (True, None)


class Committing(AsyncTransactionListener):
    """Every local transaction commits."""

    async def execute_local_transaction(
        self,
        message: Message,  # noqa: ARG002
        arg: Any,  # noqa: ARG002
    ) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    async def check_local_transaction(
        self,
        message: MessageExt,  # noqa: ARG002
    ) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


def test_the_same_in_a_loop(checkback: Checkback) -> None:
    async def send() -> bool | None:
        async with AsyncTransactionMQProducer(
            checkback.group,
            bootstrap_servers=checkback.bootstrap_servers,
            transaction_listener=Committing(),
            topic_prefix=checkback.prefix,
            direct_delivery=True,
            wait_for_delivery=True,
        ) as producer:
            return (await producer.send_message_in_transaction(Message("paid", b"x"))).delivered

    assert asyncio.run(send()) is True


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("point", POINTS)
def test_a_stopped_owner_and_whoever_answers_for_it_make_one(
    direct: Direct, point: str, how: str
) -> None:
    owner = direct.owner()
    owner.command(sends=[(how, False)], point=point, signal=signal.SIGSTOP)
    was = owner.wait()
    if was == "stopped":
        for half in direct.halves():
            direct.answer(half)  # an open local transaction is "unknown"
        owner.go_on()
        assert owner.wait() == "done"

    direct.settle(direct.halves())

    outcomes = direct.audit()
    assert sum(outcomes.values()) == 1
    always = point in ("half stored", "local transaction ended")
    assert (was == "stopped") == (always or (how == ROLLBACK) == (point == "plain op"))


@pytest.mark.parametrize("point", [point for point in POINTS if point != "plain op"])
def test_a_killed_owner_and_whoever_answers_for_it_make_one(direct: Direct, point: str) -> None:
    owner = direct.owner()
    owner.command(sends=[(COMMIT, False)], point=point, signal=signal.SIGKILL)
    assert owner.wait() == "dead"

    direct.settle(direct.halves())

    outcomes = direct.audit()
    expected = {"half stored": ROLLBACK, "committed": "delivered"}.get(point, COMMIT)
    assert outcomes == {expected: 1}


def test_a_fenced_owner_falls_back_and_goes_on_with_another_session(direct: Direct) -> None:
    owner = direct.owner(waits=True)
    owner.command(sends=[(COMMIT, False)], point="acknowledged", signal=signal.SIGSTOP)
    assert owner.wait() == "stopped"
    (half,) = direct.halves()
    direct.answer(half)
    owner.go_on()
    assert owner.wait() == "done"
    owner.command(sends=[(COMMIT, False)])  # most likely before there is another session
    assert owner.wait() == "done"

    def one_more_is_delivered() -> bool:
        owner.command(sends=[(COMMIT, False)])
        assert owner.wait() == "done"
        return ["delivered"] in direct.ops().values()

    eventually(one_more_is_delivered)
    assert direct.ops()[place_of(half)][0] == COMMIT
    assert direct.other.counters.snapshot()[ClientEvent.FENCED] == 1
    direct.settle(direct.halves())
    direct.audit()


def test_the_owner_answers_without_a_fence(direct: Direct) -> None:
    owner = direct.owner(waits=True)
    owner.command(sends=[(COMMIT, True)])  # it does not say how its transaction ended
    assert owner.wait() == "done"
    (forgotten,) = direct.halves()
    owner.check(forgotten)
    assert owner.wait() == "done"
    owner.command(sends=[(COMMIT, False)])
    assert owner.wait() == "done"

    sessions = {header(half, names.DIRECT_ID) for half in direct.halves()}
    assert len(sessions) == 1
    assert direct.audit() == {COMMIT: 1, "delivered": 1}


def test_a_check_of_a_killed_owner_comes_by_the_groups_topic(direct: Direct) -> None:
    owner = direct.owner()
    owner.command(sends=[(COMMIT, False)], point="acknowledged", signal=signal.SIGKILL)
    assert owner.wait() == "dead"
    (half,) = direct.halves()

    direct.checkback.ask(half)

    eventually(lambda: direct.ops().get(place_of(half)) == [COMMIT], 90)
    direct.audit()


class Schedules:
    """Draws what happens, from a seed."""

    def __init__(self, direct: Direct, seed: str) -> None:
        self.direct = direct
        self.chance = random.Random(seed)
        self.owner = direct.owner(lanes=self.chance.choice([1, 2]))
        self.seen = 0
        self.ran = 0

    def run(self) -> None:
        """Run one: some transactions, a stop or a death among them, and answers by both sides."""
        chance, direct = self.chance, self.direct
        if self.owner.is_dead:
            self.owner = direct.owner(lanes=chance.choice([1, 2]))
        self.owner.command(**self._draw())
        was = self.owner.wait()
        if was == "stopped":
            self._answer_some()
            if chance.random() < 0.2:
                self.owner.kill()
            else:
                self.owner.go_on()
                was = self.owner.wait()
        if not self.owner.is_dead and chance.random() < 0.4:
            self._have_the_owner_answer()
        self.ran += 1

    def _draw(self) -> dict[str, Any]:
        chance = self.chance
        sends = [
            (COMMIT if chance.random() < 0.75 else ROLLBACK, chance.random() < 0.15)
            for _ in range(chance.randint(1, 12))
        ]
        deadly = chance.random() < 0.1
        command = {
            "sends": sends,
            "seed": chance.random(),
            "spread_ms": chance.choice([0, 0, 1, 3]),
            "signal": signal.SIGKILL if deadly else signal.SIGSTOP,
        }
        drawn = chance.random()
        if drawn < 0.6:
            command |= {"point": chance.choice(POINTS), "occurrence": chance.randint(0, 3)}
        elif drawn < 0.9:
            command["after_ms"] = chance.uniform(0, 40)
        return command

    def _answer_some(self) -> None:
        for half in self._news():
            if self.chance.random() < 0.5:
                self.direct.answer(half)

    def _have_the_owner_answer(self) -> None:
        ops = self.direct.ops()
        open_now = [one for one in self._news() if not ops.get(place_of(one))]
        for half in open_now[:2]:
            self.owner.check(half)
            if self.owner.wait() != "done":
                self.owner.go_on()
                self.owner.wait()

    def _news(self) -> list[Any]:
        return self.direct.halves()[-12:]


def run_schedules(direct: Direct, seed: str, number: int, limit_s: float) -> int:
    """Run a number of schedules, fewer where time is up, and audit them."""
    schedules = Schedules(direct, seed)
    deadline_s = time.monotonic() + limit_s
    while schedules.ran < number and time.monotonic() < deadline_s:
        schedules.run()
    schedules.owner.kill()
    direct.settle(direct.halves())
    print(f"seed {seed}: {schedules.ran} schedules, {dict(direct.audit())}")
    return schedules.ran


def run_side_by_side(stage: Checkback, folder: Path, seed: int, number: int, limit_s: float) -> int:
    """Run series of schedules at once, each with topics and owners of its own; return how many."""

    def series(place: int) -> int:
        checkback = Checkback(stage.bootstrap_servers, f"{stage.prefix}{place}-")
        checkback.create_topics()
        own = folder / str(place)
        own.mkdir()
        with closing(Direct(checkback, own)) as direct:
            own_number = len(range(place, number, AT_ONCE))
            return run_schedules(direct, f"{seed}-{place}", own_number, limit_s)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(series, range(AT_ONCE)))


@pytest.mark.timeout(1_000)  # above the test's own limit
def test_random_schedules_make_one(checkback: Checkback, tmp_path: Path) -> None:
    seed = chosen_seed(1)
    ran = run_side_by_side(checkback, tmp_path, seed, SCHEDULES, SCHEDULES_S)
    assert ran == SCHEDULES


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_many_random_schedules_make_one(checkback: Checkback, tmp_path: Path) -> None:
    seed = chosen_seed()
    ran = run_side_by_side(checkback, tmp_path, seed, NIGHTLY_SCHEDULES, 6_000)
    assert ran == NIGHTLY_SCHEDULES
