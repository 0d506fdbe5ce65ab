"""Processes that are killed in their transactions leave all messages of one, or none.

The pipeline's side is played by hand: of a half without an op the log is asked, as a check does.
``CHECKBACK_AUDIT=10000`` makes that many commits instead of some hundred.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import defaultdict
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.integration.client.playing import Checkback, header
from tests.integration.client.test_client_sessions import engine

from checkback.client import LocalTransactionState
from checkback.client.sessions.log_table import TransactionLog
from checkback.client.sessions.sqlalchemy import EngineDatabase, create_log_table, log_table
from checkback.protocol import properties as names

__all__ = ["engine"]
TRANSACTIONS = int(os.environ.get("CHECKBACK_AUDIT", "300"))

PROGRAM = """
import os, random, signal, sys, threading
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from checkback.client import Producer
from checkback.client.sessions import joined
from checkback.client.sessions.log_table import TransactionLog

servers, prefix, group, url, first, count, place, after_s = sys.argv[1:]
engine = create_engine(url, connect_args={"timeout": 20} if url.startswith("sqlite") else {})
producer = Producer(group, bootstrap_servers=servers, topic_prefix=prefix, database=engine)
chance = random.Random(first)
numbers = iter(range(int(first), int(first) + int(count)))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dies_around(owner, name, before):
    call = getattr(owner, name)

    def wrapped(*given, **named):
        if before:
            die()
        call(*given, **named)
        die()

    setattr(owner, name, wrapped)


if place == "before the halves are stored":
    dies_around(joined.Joined, "seal", True)
elif place == "before the rows are written":
    dies_around(TransactionLog, "write", True)
elif place == "after the rows are written":
    dies_around(TransactionLog, "write", False)
elif place == "before the commit":
    dies_around(engine.dialect, "do_commit", True)
elif place == "after the commit":
    dies_around(engine.dialect, "do_commit", False)
elif place == "after the ops":
    dies_around(joined.Joined, "end", False)


def work():
    for number in numbers:
        run(number)


def run(number):
    sends = chance.choice([1, 1, 2, 10])
    with Session(engine) as session:
        session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": number})
        for part in range(sends):
            body = f"{number} {part} {sends}".encode()
            producer.send("paid", body, f"k-{number}", session=session)
        if not place and chance.random() < 0.2:
            session.rollback()
        else:
            session.commit()


producer.open()
if float(after_s):
    threading.Timer(float(after_s), die).start()
threads = [threading.Thread(target=work) for _ in range(1 if url.startswith("sqlite") else 4)]
print("runs", flush=True)
for thread in threads:
    thread.start()
"""
PLACES = (
    "before the halves are stored",
    "before the rows are written",
    "after the rows are written",
    "before the commit",
    "after the commit",
    "after the ops",
)


def run(
    checkback: Checkback, url: str, first: int, count: int, place: str = "", after_s: float = 0
) -> None:
    given = (checkback.bootstrap_servers, checkback.prefix, checkback.group, url)
    command = [sys.executable, "-c", PROGRAM, *given, str(first), str(count), place, str(after_s)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) in ((0, ""), (-9, "")), ended.stderr


def audit(checkback: Checkback, engine: Engine) -> tuple[int, int]:
    """Compare each transaction with its messages; return how many committed, and were asked."""
    log = TransactionLog(EngineDatabase(engine))
    verdicts = {
        header(op, names.UNIQ_KEY): header(op, names.COMMIT_OR_ROLLBACK)
        for op in checkback.ops()
        if header(op, names.COMMIT_OR_ROLLBACK) != "0"
    }
    asked = 0
    delivered: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for half in checkback.halves():
        id_ = header(half, names.UNIQ_KEY) or ""
        number, part, sends = map(int, half.value.split())
        checked = log.outcome(id_)
        if id_ not in verdicts:
            asked += 1
        else:
            assert verdicts[id_] == str(int(checked)), (id_, verdicts[id_], checked)
        if checked is LocalTransactionState.COMMIT_MESSAGE:
            delivered[number].append((part, sends))
    with engine.connect() as connection:
        committed = set(connection.execute(text("SELECT id FROM orders")).scalars())
    assert set(delivered) == committed
    for number, parts in delivered.items():
        assert sorted(parts) == [(part, parts[0][1]) for part in range(parts[0][1])], number
    return len(committed), asked


@pytest.fixture
def url(checkback: Checkback, engine: Engine) -> Any:
    table = log_table("checkback_transaction")
    create_log_table(table, engine)
    yield engine.url.render_as_string(hide_password=False)
    table.drop(engine)


def test_a_process_that_is_killed_at_each_step(
    checkback: Checkback, engine: Engine, url: str
) -> None:
    committed = {}
    for first, place in enumerate(PLACES):
        run(checkback, url, first * 100, 1, place)
        committed[place] = audit(checkback, engine)[0]
    assert list(committed.values())[:4] == [0] * 4
    assert committed["after the ops"] > committed["after the commit"] > 0


@pytest.mark.timeout(1_200)
def test_processes_that_are_killed_at_random(
    checkback: Checkback, engine: Engine, url: str
) -> None:
    chance = random.Random(40)
    kills = committed = 0
    while committed < TRANSACTIONS:
        run(checkback, url, kills * 100_000, 100_000, after_s=chance.uniform(0.05, 2.5))
        kills += 1
        with engine.connect() as connection:
            committed = connection.execute(text("SELECT count(*) FROM orders")).scalar_one()
    audited, asked = audit(checkback, engine)
    print(f"{engine.dialect.name}: {kills} kills, {audited} committed, {asked} asked")
    assert audited == committed
