"""``python -m bench client``: how many transactions per second a client process gets through.

Each run is a process of its own: the floor (a bare librdkafka producer that produces a record and
waits for it, and one without waiting: half and op), the client, its asyncio form, and the client
for Java where `make java` has built it. They run in turn, so that a ratio is one of neighbours.
Transactions commit at once. With ``--database`` messages in database transactions are measured
instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from operator import sub, truediv
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from bench.result import in_turn
from bench.sessions import DATABASE, KINDS, LISTENER, SESSION, TEN, transaction_of
from bench.setting import Option
from checkback.client import (
    AsyncTransactionListener,
    AsyncTransactionMQProducer,
    LocalTransactionState,
    Message,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.deploy.java import find_java
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError, UsageError
from checkback.testing.topics import create_plain_topics

FLOOR: Final = "floor"
CLIENT: Final = "client"
ASYNCIO: Final = "asyncio"
JAVA: Final = "java"
JAR: Final = Path(__file__).parents[1] / "java" / "conformance" / "target" / "conformance.jar"
PER_THREAD_MAX: Final = 4_000
"""A single thread would take minutes for what 64 do in a second."""
WARM_UP_OF: Final = 10
"""One of this many transactions is sent before the measured ones."""
ERROR_CHARACTERS: Final = 500
OP: Final = b"12345"
"""As long as an op's value."""
COMMIT: Final = LocalTransactionState.COMMIT_MESSAGE
P50: Final = "latency_p50_ms"
RATIOS: Final = (
    ("client_to_floor", "transactions_per_s", CLIENT, FLOOR, truediv),
    ("time_to_floor", P50, CLIENT, FLOOR, truediv),
    ("session_to_listener", P50, SESSION, LISTENER, truediv),
    ("ten_to_one", P50, TEN, SESSION, truediv),
    ("session_to_database", P50, SESSION, DATABASE, truediv),
    ("added_ms", P50, SESSION, DATABASE, sub),
    ("added_ms_ten", P50, TEN, DATABASE, sub),
)
"""Each measure with the key that it compares, of which kind of run with which.

``added_ms`` is what one message adds to a transaction's time, ``added_ms_ten`` what ten add."""
OPTIONS: Final = (
    Option("body_bytes", 200, None, "Message size."),
    Option("threads", "1,8,64", None, "Numbers of threads; one run for each."),
    Option("transactions", 40_000, None, "Of all threads; 4,000 a thread at most."),
    Option("rounds", 3, None, "How often all kinds of run follow each other."),
    Option("in_flight", 512, None, "Under way at once with asyncio."),
    Option("database", "", None, "URL for SQLAlchemy: measure database transactions there."),
)


@dataclass(frozen=True, kw_only=True)
class ClientRun:
    """What one process does.

    With asyncio ``threads`` says how many transactions are under way; each of them, or each thread,
    sends ``transactions``.
    """

    kind: str
    bootstrap_servers: str
    topic_prefix: str
    threads: int
    transactions: int
    body_bytes: int
    database: str = ""

    @property
    def message(self) -> Message:
        """What each transaction sends."""
        return Message(f"{self.topic_prefix}checkback-bench", b"x" * self.body_bytes)

    @property
    def warm_up(self) -> int:
        """How many transactions each thread sends first."""
        return max(1, self.transactions // WARM_UP_OF)


def planned_runs(options: argparse.Namespace, settings: Settings) -> list[ClientRun]:
    """Return a run of the client for each number of threads.

    Raises:
        UsageError: ``--threads`` does not hold whole numbers.
    """
    parts = options.threads.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(
            f"--threads is {options.threads!r}.", remedy="Give whole numbers: --threads 1,8,64."
        )
    return [
        ClientRun(
            kind=CLIENT,
            bootstrap_servers=settings.bootstrap_servers,
            topic_prefix=settings.topic_prefix,
            threads=threads,
            transactions=min(PER_THREAD_MAX, -(-options.transactions // threads)),
            body_bytes=options.body_bytes,
        )
        for threads in map(int, parts)
    ]


def measure_client(options: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Create the topics, measure everything in turn, and return the JSON document.

    Raises:
        UsageError: ``--threads`` does not hold whole numbers.
        CheckbackError: a transaction could not be sent.
    """
    runs = planned_runs(options, settings)
    create_topics(settings)
    # As many partitions as the half topic has, so that the floor batches as halves do.
    create_plain_topics(settings, [runs[0].message.topic], settings.half_partitions)
    most = max(run.threads for run in runs)
    measured = []
    for run in runs:
        kinds = [replace(run, kind=FLOOR), run]
        if options.database:
            kinds = [replace(run, kind=kind, database=options.database) for kind in KINDS]
        elif JAR.exists():
            kinds.append(replace(run, kind=JAVA))
        if run.threads == most and not options.database:
            share = max(1, run.threads * run.transactions // options.in_flight)
            kinds.append(replace(run, kind=ASYNCIO, threads=options.in_flight, transactions=share))
        for number in range(options.rounds):
            for kind in in_turn(kinds, number):
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                    measured.append(process.submit(run_client, kind).result())
    return {"runs": measured, "ratios": ratios(measured)}


def ratios(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the measures of what was measured in turn: medians over neighbours."""
    found = []
    for threads in dict.fromkeys(run["threads"] for run in measured):
        for name, key, over, under, compare in RATIOS:
            above, below = (
                [run[key] for run in measured if (run["kind"], run["threads"]) == (kind, threads)]
                for kind in (over, under)
            )
            if values := list(map(compare, above, below)):
                least, median, most = min(values), statistics.median(values), max(values)
                found.append(
                    {
                        "measure": name,
                        "threads": threads,
                        "median": round(median, 2),
                        "least": round(least, 2),
                        "most": round(most, 2),
                    }
                )
    return found


class _Committing(TransactionListener):
    """An empty local transaction."""

    def execute_local_transaction(self, *_: Any, **__: Any) -> LocalTransactionState:
        return COMMIT

    check_local_transaction = execute_local_transaction


class _CommittingInLoop(AsyncTransactionListener):
    """The same in a loop."""

    async def execute_local_transaction(self, *_: Any, **__: Any) -> LocalTransactionState:
        return COMMIT

    check_local_transaction = execute_local_transaction


def run_client(run: ClientRun) -> dict[str, Any]:
    """Do one run in this process.

    Raises:
        CheckbackError: a transaction could not be sent.
    """
    if run.kind == ASYNCIO:
        return asyncio.run(_run_asyncio(run))
    if run.kind == FLOOR:
        return _run_floor(run)
    if run.kind == JAVA:
        return _run_java(run)
    message = run.message
    if run.database:
        connection = {
            "bootstrap_servers": run.bootstrap_servers,
            "topic_prefix": run.topic_prefix,
        }
        with transaction_of(run.kind, run.database, message, run.threads, **connection) as call:
            return _measure(run, call)
    with TransactionMQProducer(
        "checkback-bench",
        bootstrap_servers=run.bootstrap_servers,
        transaction_listener=_Committing(),
        topic_prefix=run.topic_prefix,
    ) as producer:
        return _measure(run, lambda: producer.send_message_in_transaction(message))


def _run_floor(run: ClientRun) -> dict[str, Any]:
    """Produce two records, waiting for the first, without anything of Checkback's."""
    settings: dict[str, Any] = {
        "bootstrap.servers": run.bootstrap_servers,
        "enable.idempotence": True,
        "max.in.flight": 5,
        "linger.ms": 0,
    }
    producer, body, topic = Producer(settings), run.message.body, run.message.topic
    closing = threading.Event()
    reported: list[Any] = []

    def poll() -> None:
        while not closing.is_set():
            producer.poll(0.1)
            while reported:
                reported.pop().release()

    def send() -> None:
        waiter = threading.Lock()
        waiter.acquire()
        producer.produce(topic, body, on_delivery=lambda *_: reported.append(waiter))
        waiter.acquire()
        producer.produce(topic, OP)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        return _measure(run, send)
    finally:
        closing.set()
        polling.join()


def _run_java(run: ClientRun) -> dict[str, Any]:
    """Let a JVM send; it first sends as many transactions without measuring them."""
    sizes = (run.threads, run.transactions, run.body_bytes)
    program = ["-cp", str(JAR), "io.checkback.conformance.SendLoad"]
    arguments = [run.bootstrap_servers, run.topic_prefix, run.message.topic, *map(str, sizes)]
    command = [str(find_java()), *program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise OperationalError(f"The client for Java failed: {ran.stderr[-ERROR_CHARACTERS:]}")
    measured: dict[str, Any] = json.loads(ran.stdout)
    return measured


async def _run_asyncio(run: ClientRun) -> dict[str, Any]:
    message = run.message
    latencies_ms: list[float] = []
    async with AsyncTransactionMQProducer(
        "checkback-bench",
        bootstrap_servers=run.bootstrap_servers,
        transaction_listener=_CommittingInLoop(),
        topic_prefix=run.topic_prefix,
    ) as producer:

        async def send(times: int) -> None:
            for _ in range(times):
                started_s = time.perf_counter()
                await producer.send_message_in_transaction(message)
                latencies_ms.append((time.perf_counter() - started_s) * 1000)

        async def all_of(times: int) -> None:
            await asyncio.gather(*(send(times) for _ in range(run.threads)))

        await all_of(run.warm_up)
        latencies_ms.clear()
        started_s, processor_s = time.perf_counter(), time.process_time()
        await all_of(run.transactions)
        took_s = time.perf_counter() - started_s
        return _measurement(run, took_s, time.process_time() - processor_s, latencies_ms)


def _measure(run: ClientRun, call: Callable[[], Any]) -> dict[str, Any]:
    """Call something in threads, as fast as that many can."""
    latencies_ms: list[float] = []
    together = threading.Barrier(run.threads)

    def repeat(times: int) -> None:
        together.wait()  # else a thread that is done early would do another one's share
        for _ in range(times):
            started_s = time.perf_counter()
            call()
            latencies_ms.append((time.perf_counter() - started_s) * 1000)

    with ThreadPoolExecutor(run.threads) as pool:
        list(pool.map(repeat, [run.warm_up] * run.threads))
        latencies_ms.clear()
        started_s, processor_s = time.perf_counter(), time.process_time()
        list(pool.map(repeat, [run.transactions] * run.threads))
        took_s = time.perf_counter() - started_s
        return _measurement(run, took_s, time.process_time() - processor_s, latencies_ms)


def _measurement(
    run: ClientRun, took_s: float, processor_s: float, latencies_ms: Sequence[float]
) -> dict[str, Any]:
    """Return what came of a run, of all threads together."""
    shares = statistics.quantiles(latencies_ms, n=100, method="inclusive")
    return {
        "kind": run.kind,
        "threads": run.threads,
        "transactions": len(latencies_ms),
        "transactions_per_s": round(len(latencies_ms) / took_s, 1),
        "processor_us": round(processor_s / len(latencies_ms) * 1_000_000, 1),
        "latency_p50_ms": round(shares[49], 3),
        "latency_p99_ms": round(shares[98], 2),
        "latency_max_ms": round(max(latencies_ms), 2),
    }
