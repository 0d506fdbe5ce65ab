"""A service that delivers directly, killed at work, and the pipeline: each order is there once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.integration.running import Topics, wait_until
from tests.integration.shared_jvm import SharedJvm

from checkback.state import Mark, unpack_settled

GROUP: Final = "g"
SERVICE: Final = """
import os, signal, sqlite3, sys
from concurrent.futures import ThreadPoolExecutor
from checkback.client import (
    LocalTransactionState, Message, TransactionListener, TransactionMQProducer
)

servers, prefix, group, database, first, orders, killed_at = sys.argv[1:]
numbers = range(int(first), int(first) + int(orders))

class Orders(TransactionListener):
    def execute_local_transaction(self, message, number):
        if number % 7 == 3:
            return LocalTransactionState.ROLLBACK_MESSAGE
        with sqlite3.connect(database, timeout=60) as connection:
            connection.execute("INSERT INTO orders VALUES (?, ?)", (number, message.transaction_id))
        if number % 7 == 5:
            return LocalTransactionState.UNKNOW
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message):
        with sqlite3.connect(database, timeout=60) as connection:
            found = connection.execute(
                "SELECT 1 FROM orders WHERE sent_as = ?", (message.transaction_id,)
            ).fetchone()
        # Who asks has waited; nobody here is slow: what is not there was never written.
        return (LocalTransactionState.COMMIT_MESSAGE if found
                else LocalTransactionState.ROLLBACK_MESSAGE)

def send(number):
    if number == int(killed_at):
        os.kill(os.getpid(), signal.SIGKILL)
    message = Message(prefix + "orders", b"%d" % number, keys=f"key-{number % 5}")
    producer.send_message_in_transaction(message, number)

with TransactionMQProducer(
    group, bootstrap_servers=servers, topic_prefix=prefix, transaction_listener=Orders(),
    direct_delivery=True,
) as producer, ThreadPoolExecutor(8) as pool:
    list(pool.map(send, numbers))
    print("sent", flush=True)
    sys.stdin.readline()
"""


class Service:
    """One process of the service."""

    def __init__(self, topics: Topics, database: Path, first: int, orders: int, killed_at: int):
        told = [topics.connection["bootstrap.servers"], topics.prefix, GROUP, str(database)]
        numbers = [str(one) for one in (first, orders, killed_at)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVICE, *told, *numbers],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_until_killed(self) -> None:
        assert self.process.wait(180) == -signal.SIGKILL

    def wait_until_sent(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "sent\n"

    def end(self) -> None:
        self.process.communicate("\n", timeout=180)
        assert self.process.returncode == 0


def rows(database: Path) -> list[str]:
    with sqlite3.connect(database) as connection:
        return sorted(str(number) for (number,) in connection.execute("SELECT id FROM orders"))


def decided(topics: Topics) -> list[Mark]:
    """Return the marks of all halves that have their verdict."""
    records = topics.read(topics.names.settled)
    found = [one for record in records for one in unpack_settled(record.value() or b"").mark]
    return [Mark(one) for one in found if one != Mark.ASKED]


def test_each_order_of_a_killed_service_is_there_once_whoever_delivered_it(
    topics: Topics, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    settings = topics.settings(tmp_path / "checkpoint", check_max=1_000)
    real, database = f"{topics.prefix}orders", tmp_path / "orders.sqlite"
    topics.create(settings, [real], [GROUP])
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, sent_as TEXT)")

    with shared_jvm.pipeline(settings, tmp_path) as pipeline:
        pipeline.wait_for("started")
        Service(topics, database, 0, 400, killed_at=300).wait_until_killed()
        second = Service(topics, database, 1_000, 300, killed_at=-1)
        second.wait_until_sent()
        wait_until(
            lambda: len(decided(topics)) == len(topics.read(topics.names.half)), what="marks"
        )
        second.end()
        assert pipeline.terminate() == 0

    committed, marks = rows(database), decided(topics)
    assert topics.bodies(real) == committed
    assert len(committed) > 400
    assert marks.count(Mark.DELIVERED) > 200
    assert topics.reasons() == []
