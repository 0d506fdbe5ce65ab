"""Delivers directly, and stops or dies where the test says: ``direct_owner.py JSON``.

It reads one command per line: which transactions to run, with which ends, and where to stop.
Its "database" is a folder with one file per transaction, which whoever comes first creates.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.client.check_request import read_check_request
from checkback.protocol.errors import SendError

PR_SET_PDEATHSIG = 1
NEVER_MS = 1_000_000
COMMIT, ROLLBACK = "commit", "rollback"
STATES = {
    COMMIT: LocalTransactionState.COMMIT_MESSAGE,
    ROLLBACK: LocalTransactionState.ROLLBACK_MESSAGE,
}
POINTS = (
    "half stored", "local transaction ended", "begin", "begun", "final handed over",
    "op handed over", "acknowledged", "committed", "plain op",
)  # fmt: skip
"""Between every two steps of a direct delivery, in order; the last only where it falls back."""


class Database:
    """How local transactions ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def end(self, transaction_id: str, how: str) -> str:
        """End a transaction unless it has ended; return how it did."""
        unfinished = self._folder / f"{transaction_id}.{threading.get_ident()}.{os.getpid()}"
        unfinished.write_text(how)
        try:
            os.link(unfinished, self._folder / transaction_id)
        except FileExistsError:
            return self.outcome(transaction_id)
        return how

    def outcome(self, transaction_id: str) -> str:
        """Return how a transaction ended, empty where it has not."""
        try:
            return (self._folder / transaction_id).read_text()
        except FileNotFoundError:
            return ""


class Answering(TransactionListener):
    """Runs local transactions on the database, and looks them up there."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        Stop.at("half stored")
        how = self.database.end(message.transaction_id, arg["how"])
        Stop.at("local transaction ended")
        return LocalTransactionState.UNKNOW if arg["forgets"] else STATES[how]

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        how = self.database.outcome(message.transaction_id)
        return STATES.get(how, LocalTransactionState.UNKNOW)


class Stop:
    """Where this process stops next, and by which signal."""

    point = ""
    signal_number = 0
    left = 0

    @classmethod
    def set(cls, point: str, signal_number: int, left: int = 0) -> None:
        cls.point, cls.signal_number, cls.left = point, signal_number, left

    @classmethod
    def at(cls, point: str) -> None:
        if cls.point != point:
            return
        cls.left -= 1
        if cls.left < 0:
            cls.point = ""
            # To this thread: sent to the process, it stops another one first, and this goes on.
            signal.pthread_kill(threading.get_ident(), cls.signal_number)


class Commits:
    """Tells the test when a commit begins, and whose."""

    left = 0

    @classmethod
    def begin(cls, session_id: str) -> None:
        cls.left -= 1
        if cls.left == 0:
            # One text: of several, another thread's flush would send the first alone.
            print(f"committing {session_id}\n", end="", flush=True)


class Stepping:
    """A session's producer with a point between every two steps."""

    def __init__(self, session_id: str, producer: Any) -> None:
        self._session_id = session_id
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def begin_transaction(self) -> None:
        Stop.at("begin")
        self._producer.begin_transaction()
        Stop.at("begun")

    def produce(self, topic: str, *rest: Any) -> None:
        self._producer.produce(topic, *rest)
        Stop.at("op handed over" if "DIRECT_OP" in topic else "final handed over")

    def flush(self, timeout_s: float) -> int:
        left: int = self._producer.flush(timeout_s)
        Stop.at("acknowledged")
        return left

    def commit_transaction(self, timeout_s: float) -> None:
        Commits.begin(self._session_id)
        self._producer.commit_transaction(timeout_s)
        Stop.at("committed")


def main(options: Mapping[str, Any]) -> None:
    """Start the producer, then do what standard input says."""
    listener = Answering(Database(Path(options["folder"])))
    producer = TransactionMQProducer(
        options["group"],
        bootstrap_servers=options["bootstrap_servers"],
        transaction_listener=listener,
        topic_prefix=options["prefix"],
        direct_delivery=True,
        direct_lanes=options.get("lanes", 1),
        wait_for_delivery=options.get("waits", False),
    )
    clients = producer._clients
    open_producer = clients.direct_producer
    stepping: Any = lambda one: Stepping(one, open_producer(one))  # noqa: E731
    clients.direct_producer = stepping  # type: ignore[method-assign]
    producer.start()
    send_one_way = producer._ops.send_one_way

    def send_plain(*op: Any, **named: Any) -> None:
        Stop.at("plain op")
        send_one_way(*op, **named)

    producer._ops.send_one_way = send_plain  # type: ignore[method-assign]
    print("ready", flush=True)
    for line in sys.stdin:
        _do(producer, options["real_topic"], json.loads(line))
        print("done\n", end="", flush=True)
    producer.shutdown()


def _do(producer: TransactionMQProducer, topic: str, command: Mapping[str, Any]) -> None:
    if "check" in command:
        key, body, headers, asked_ms = command["check"]
        pairs = [(name, bytes.fromhex(value)) for name, value in headers]
        request = read_check_request(
            None if key is None else bytes.fromhex(key), bytes.fromhex(body), pairs, asked_ms
        )
        producer._checks._answers.answer(request)
        return
    if command.get("point"):
        Stop.set(command["point"], command["signal"], command.get("occurrence", 0))
    number, after_ms = command.get("signal", 0), command.get("after_ms", NEVER_MS)
    late = threading.Timer(after_ms / 1000, lambda: os.kill(os.getpid(), number))
    late.daemon = True
    late.start()
    random.seed(command["seed"])
    Commits.left = command.get("tell_commit", 0)
    expected = (SendError,) if command.get("brokers_die") else ()
    sends = [(number, how, forgets) for number, (how, forgets) in enumerate(command["sends"])]

    def send(one: tuple[int, str, bool]) -> None:
        number, how, forgets = one
        time.sleep(command.get("spread_ms", 0) * number / 1000)
        message = Message(topic, b"%d" % number, keys=f"k{number % 3}")
        with suppress(*expected):
            producer.send_message_in_transaction(message, {"how": how, "forgets": forgets})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, sends))
    delivery: Any = producer._direct._delivery
    # A half that is in doubt stays until somebody asks about it.
    deadline_s = time.monotonic() + (5 if expected else 15)
    while time.monotonic() < deadline_s and len(delivery._own._halves):  # under way
        time.sleep(0.005)
    Stop.set("", 0)
    late.cancel()  # who is done does not die later, while nobody expects it
    late.join()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # A stopped process would outlive a test that is killed.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    main(json.loads(sys.argv[1]))
