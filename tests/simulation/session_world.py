"""Applications that send in database transactions and die at any await, over a Kafka in memory.

Sessions, log, halves, ops and answers are the real ones; the database is SQLite in memory. The
pipeline and librdkafka's producers are here: each call into this world lets others go on, and may
be the last of its process.
"""

from __future__ import annotations

import argparse
import logging
import sqlite3
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka import KafkaError
from greenlet import getcurrent, greenlet
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from checkback.client import LocalTransactionState, Producer
from checkback.client.kafka.delivery_reports import PolledProducer
from checkback.client.kafka.topics import TopicLeaders
from checkback.client.producer import ServiceState
from checkback.client.sending import half, half_producer, op_producer
from checkback.client.sending.half import InDoubtIds
from checkback.client.sending.steps import Request
from checkback.client.sessions.core import SessionCore
from checkback.client.sessions.sent import awaited
from checkback.client.sessions.sqlalchemy import create_log_table, log_table
from checkback.protocol import properties as names
from checkback.protocol.errors import SendError

PARTITIONS: Final = (0, 1)
CRASHES: Final = 0.012
"""How often a process dies, of all steps."""
ROLLBACK: Final = LocalTransactionState.ROLLBACK_MESSAGE
VERDICTS: Final = {b"8": True, b"12": False, b"0": None}
FATES: Final[tuple[tuple[bool, int | None], ...]] = (
    *[(True, 0)] * 60,
    (True, None), (True, KafkaError._MSG_TIMED_OUT), (False, KafkaError._MSG_TIMED_OUT),
    (False, None), (True, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    (False, KafkaError.NOT_ENOUGH_REPLICAS),
)  # fmt: skip
"""Of a half: whether it is stored, and the error in its report, 0 for none; None for no report."""
_numbers = count()


class CrashError(BaseException):
    """A process dies where it stands."""


class TakenBackError(Exception):
    """An application rolls back."""


FAILURES: Final = (SendError, DBAPIError, sqlite3.Error, TakenBackError)


class Actor:
    """What a process does beside other things."""

    def __init__(self, process: Process, body: Callable[[], object]) -> None:
        self.process, self._body, self.place = process, body, "start"
        self.thread: Any = greenlet(self._live)
        self.thread.actor = self

    def _live(self) -> None:
        try:
            self._body()
        except (CrashError, *FAILURES):
            return
        except Exception:
            if not self.process.is_dead:
                raise


@dataclass
class Stored:
    """A half on the half topic; it is also what its report says."""

    place: tuple[int, int]
    body: str
    transaction_id: str
    verdict: bool | None = None

    def partition(self) -> int:
        return self.place[0]

    def offset(self) -> int:
        return self.place[1]

    def timestamp(self) -> tuple[int, int]:
        return 0, 0


class AwaitedCursor(sqlite3.Cursor):
    def execute(self, statement: str, values: Any = ()) -> Any:
        connection: Any = self.connection
        connection.process.pause("before SQL")
        super().execute(statement, values)
        connection.process.pause("after SQL")
        return self


class AwaitedConnection(sqlite3.Connection):
    """A connection that dies with its process, and may lose the answer to a commit."""

    process: Process

    def cursor(self, factory: Any = None) -> Any:
        del factory
        return super().cursor(AwaitedCursor)

    def commit(self) -> None:
        self.process.pause("before the commit")
        chance = self.process.world.random.random()
        if chance < 0.05:
            self.rollback()
        else:
            super().commit()
        self.process.pause("after the commit")
        if chance < 0.1:
            raise sqlite3.OperationalError("the connection was lost")


class FakePolled:
    """librdkafka's producer: it has records under way, and dies with its process."""

    hand_over: Any = PolledProducer.hand_over

    def __init__(self, process: Process) -> None:
        self.done: deque[Any] = deque()
        self._process = process

    def produce(self, **record: Any) -> None:
        name = "half" if "on_delivery" in record else "op"
        self._process.pause(f"before the {name} is sent")
        if self._process.world.random.random() < 0.02:
            raise BufferError
        self._process.under_way.append(record)
        self._process.pause(f"after the {name} was sent")


class SimulatedCore(SessionCore):
    """Sends by the world's Kafka."""

    def open_in(self, process: Process) -> InDoubtIds:
        leaders = TopicLeaders({0: 1, 1: 2}, PARTITIONS, 0.0)
        self._facts: Any = SimpleNamespace(
            knows=lambda _: True, require_fits=lambda *_: None, topic=lambda _: leaders,
            refresh=lambda _: None,
        )  # fmt: skip
        in_doubt, polled = InDoubtIds(), lambda *_, **__: FakePolled(process)
        with (
            patch.object(half_producer, "PolledProducer", polled),
            patch.object(op_producer, "PolledProducer", polled),
        ):
            self._open_senders(in_doubt)
        self._status, self._state, self._process = None, ServiceState.RUNNING, process
        return in_doubt

    def perform(self, request: Request) -> None:
        if (waited := awaited(request)) is not None:
            report, timeout_s = waited
            until_s = self._process.world.now_s + timeout_s
            while not report._is_awake and self._process.world.now_s < until_s:
                self._process.pause("while the half is waited for")


class Process:
    """A process of the application, its producer and what is under way to Kafka."""

    def __init__(self, world: World, *, is_plain: bool) -> None:
        self.world, self.is_plain, self.is_dead = world, is_plain, False
        self.under_way: list[dict[str, Any]] = []
        self.connections: list[AwaitedConnection] = []
        self.engine = create_engine("sqlite://", creator=self.connect, poolclass=NullPool)
        event.listen(self.engine, "connect", lambda made, _: setattr(made, "isolation_level", None))
        event.listen(self.engine, "begin", lambda made: made.exec_driver_sql("BEGIN"))
        self.engine.connect().close()  # the first one holds a lock, over which others may not come
        self.producer = Producer(
            "g", bootstrap_servers="none:1", database=self.connect if is_plain else self.engine
        )
        listener, self.log = self.producer.listener, self.producer.log
        core = SimulatedCore(
            "g", bootstrap_servers="none:1", transaction_listener=listener, log=self.log
        )
        self._in_doubt = core.open_in(self)
        self.producer.send_by(core)

    def connect(self) -> AwaitedConnection:
        self.pause("before it connects")
        made: AwaitedConnection = self.world.connect(AwaitedConnection)
        made.process = self
        self.connections.append(made)
        return made

    def pause(self, place: str) -> None:
        """Let others go on; the caller may be dead afterwards."""
        thread: Any = getcurrent()
        actor: Actor | None = getattr(thread, "actor", None)
        if actor is not None and not self.is_dead:
            actor.place = place
            thread.parent.switch()
        if self.is_dead:
            raise CrashError

    def answer(self, asked: Stored) -> None:
        """Answer a check."""
        assert self.log is not None
        doubts = asked.transaction_id in self._in_doubt
        state = ROLLBACK if doubts else self.log.outcome(asked.transaction_id)
        self.world.decide(asked, VERDICTS[b"%d" % state])

    def work(self, number: int) -> None:
        """Run a transaction with messages and savepoints."""
        if self.is_plain:
            with closing(self.connect()) as made, self.producer.transaction(made) as joined:
                for part in range(self.world.random.choice((1, 2, 5))):
                    self._send(made.cursor().execute, joined, f"{number} {part}")
                self._perhaps_take_back(0.2)
        else:
            with Session(self.engine) as session:
                self._send_in(session, f"{number}", depth=0)
                self._perhaps_take_back(0.2)
                session.commit()

    def _send_in(self, session: Session, name: str, depth: int) -> None:
        for part in range(self.world.random.choice((1, 2, 4))):
            if self.world.random.random() < 0.6 or depth == 2:
                self._send(session.connection().exec_driver_sql, session, f"{name} {part}")
                continue
            with suppress(TakenBackError), session.begin_nested():
                self._send_in(session, f"{name} {part}", depth + 1)
                self._perhaps_take_back(0.4)

    def _send(self, run: Callable[..., object], session: Any, body: str) -> None:
        is_first = self.world.random.random() < 0.5
        if is_first:
            self.producer.send("t", body, session=session)
        run("INSERT INTO sent VALUES (?)", (body,))
        if not is_first:
            self.producer.send("t", body, session=session)

    def _perhaps_take_back(self, chance: float) -> None:
        if self.world.random.random() < chance:
            raise TakenBackError


@dataclass
class World:
    """All that outlives a process, and who lives.

    Args:
        seed: says what happens.
    """

    seed: int
    now_s: float = 0.0
    halves: list[Stored] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    crashed_at: Counter[str] = field(default_factory=Counter)
    delivered: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self._number = next(_numbers)
        self._anchor = self.connect(sqlite3.Connection)
        self._anchor.execute("CREATE TABLE sent (body TEXT PRIMARY KEY)")
        engine = create_engine("sqlite://", creator=lambda: self.connect(sqlite3.Connection))
        create_log_table(log_table("checkback_transaction"), engine)

    def connect(self, kind: Any) -> Any:
        """Open a connection to the database."""
        address = f"file:sessions-{self._number}?mode=memory&cache=shared"
        return sqlite3.connect(address, uri=True, factory=kind, timeout=0)

    def go(self, steps: int = 1_500) -> World:
        """Live, calm down, and check it."""
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        with patch.object(half, "time", clock), patch.object(half_producer, "time", clock):
            for number in range(steps):
                self._step(number)
            while self.actors:
                self._go_on(self.random.choice(self.actors))
                self._carry()
            while any(one.under_way for one in self.processes):
                self._carry()
            asking = Process(self, is_plain=False)
            while waiting := [one for one in self.halves if one.verdict is None]:
                with suppress(*FAILURES):
                    asking.answer(waiting[0])
        self._check()
        return self

    def _step(self, number: int) -> None:
        self.now_s += self.random.choice((0.0, 0.001, 0.05))
        if len(self.processes) < 2:
            self.processes.append(Process(self, is_plain=self.random.random() < 0.3))
        if len(self.actors) < 2 and self.random.random() < 0.2:
            process = self.random.choice(self.processes)
            self.actors.append(Actor(process, lambda: process.work(number)))
        waiting = [one for one in self.halves if one.verdict is None]
        if waiting and self.random.random() < 0.02:
            asked, answering = self.random.choice(waiting), self.random.choice(self.processes)
            self.actors.append(Actor(answering, lambda: answering.answer(asked)))
        if self.actors:
            actor = self.random.choice(self.actors)
            if self.random.random() < CRASHES:
                self._crash(actor)
            else:
                self._go_on(actor)
        self._carry()

    def _go_on(self, actor: Actor) -> None:
        self.now_s += 0.001
        actor.thread.switch()
        if actor.thread.dead:
            self.actors.remove(actor)

    def _crash(self, actor: Actor) -> None:
        """Kill an actor's process; some of what it gave to librdkafka is sent all the same."""
        self.crashed_at[actor.place] += 1
        process = actor.process
        self.processes.remove(process)
        process.is_dead = True
        for connection in process.connections:
            connection.close()
        for record in process.under_way:
            if self.random.random() < 0.5:
                self._arrive(record, is_reported=False)
        for one in [one for one in self.actors if one.process is process]:
            if one.thread:  # it has begun
                one.thread.throw(CrashError)
            self.actors.remove(one)

    def _carry(self) -> None:
        """Let a record arrive, or be lost."""
        busy = [one for one in self.processes if one.under_way]
        if busy and self.random.random() < 0.5:
            self._arrive(self.random.choice(busy).under_way.pop(0))

    def _arrive(self, record: dict[str, Any], *, is_reported: bool = True) -> None:
        if "on_delivery" in record:
            is_stored, code = self.random.choice(FATES)
            self._half_arrives(record, is_stored, code if is_reported else None)
        elif self.random.random() < 0.8:
            headers = dict(record["headers"])
            place = record["partition"], int(record["value"])
            found = next(one for one in self.halves if one.place == place)
            assert headers[names.UNIQ_KEY].decode() == found.transaction_id
            self.decide(found, VERDICTS[headers[names.COMMIT_OR_ROLLBACK]])

    def _half_arrives(self, record: dict[str, Any], is_stored: bool, code: int | None) -> None:
        id_ = dict(record["headers"])[names.UNIQ_KEY].decode()
        partition, report = record["partition"], record["on_delivery"]
        offset = sum(one.place[0] == partition for one in self.halves)
        stored = Stored((partition, offset), record["value"].decode(), id_)
        if is_stored:
            self.halves.append(stored)
        if code is not None:
            report(KafkaError(code) if code else None, stored)
            report.wake()

    def decide(self, stored: Stored, verdict: bool | None) -> None:
        """Take an op as the pipeline does: the first verdict is final, and no other may come."""
        if verdict is not None:
            assert stored.verdict in (None, verdict), f"{stored} is now {verdict}"
            stored.verdict = verdict

    def _check(self) -> None:
        """Each message that was sent in what has committed is delivered once, and no other."""
        delivered = Counter(one.body for one in self.halves if one.verdict)
        sent = Counter(row[0] for row in self._anchor.execute("SELECT body FROM sent"))
        assert delivered == sent, f"lost: {sent - delivered}, too many: {delivered - sent}"
        self.delivered = len(sent)
        self._anchor.close()


def live(seed: int) -> World:
    """Live one life; a failure says how to repeat it."""
    try:
        return World(seed).go()
    except AssertionError as failure:
        failure.add_note(f"repeat: python -m tests.simulation.session_world {seed}")
        raise


def lives(seed: int, crashes: int) -> Iterator[World]:
    """Live from a seed on until there were as many crashes."""
    while crashes > 0:
        world = live(seed)
        yield world
        seed, crashes = seed + 1, crashes - world.crashed_at.total()


def main() -> None:
    """Live from a seed on until there were as many crashes."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.session_world")
    parser.add_argument("seed", type=int)
    parser.add_argument("--crashes", type=int, default=1)
    wanted = parser.parse_args()
    logging.disable()
    worlds = list(lives(wanted.seed, wanted.crashes))
    crashed_at = sum((world.crashed_at for world in worlds), Counter[str]())
    delivered = sum(world.delivered for world in worlds)
    sys.stdout.write(f"{delivered} messages delivered, crashes at {dict(crashed_at)}\n")


if __name__ == "__main__":
    main()
