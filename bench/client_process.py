"""One process of ``python -m bench client``: ``python client_process.py RUN``, RUN as JSON.

It imports nothing of the bench: started by its file name, it measures another checkout's client.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Producer

from checkback.client import (
    AsyncTransactionListener,
    AsyncTransactionMQProducer,
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)

FLOOR: Final = "floor"
CLIENT: Final = "client"
ASYNCIO: Final = "asyncio"
BEFORE: Final = "before"
REAL_TOPIC: Final = "checkback-bench"
WARM_UP_SHARE: Final = 0.1
LOOK_S: Final = 10.0
COMMIT: Final = LocalTransactionState.COMMIT_MESSAGE


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

    @property
    def real_topic(self) -> str:
        """Where the messages are meant for, and where the floor writes."""
        return self.topic_prefix + REAL_TOPIC


class _Committing(TransactionListener):
    """An empty local transaction."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:  # noqa: ARG002
        return COMMIT

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:  # noqa: ARG002
        return COMMIT


class _CommittingInLoop(AsyncTransactionListener):
    """The same in a loop."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:  # noqa: ARG002
        return COMMIT

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:  # noqa: ARG002
        return COMMIT


def run_client(run: ClientRun) -> dict[str, Any]:
    """Do one run in this process.

    Raises:
        CheckbackError: a transaction could not be sent.
    """
    if run.kind == ASYNCIO:
        return asyncio.run(_run_asyncio(run))
    if run.kind == FLOOR:
        return _run_floor(run)
    message = _message(run)
    with TransactionMQProducer(
        "checkback-bench",
        bootstrap_servers=run.bootstrap_servers,
        transaction_listener=_Committing(),
        topic_prefix=run.topic_prefix,
    ) as producer:
        return _measure(run, lambda: producer.send_message_in_transaction(message))


def _message(run: ClientRun) -> Message:
    return Message(run.real_topic, b"x" * run.body_bytes)


def _run_floor(run: ClientRun) -> dict[str, Any]:
    """Produce and wait, with the producer of halves but without anything of Checkback's."""
    settings: dict[str, Any] = {
        "bootstrap.servers": run.bootstrap_servers,
        "enable.idempotence": True,
        "max.in.flight": 5,
        "linger.ms": 0,
    }
    producer, body, topic = Producer(settings), b"x" * run.body_bytes, run.real_topic
    partitions = len(producer.list_topics(topic, LOOK_S).topics[topic].partitions)
    turns = itertools.count()
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
        producer.produce(
            topic, body, None, next(turns) % partitions, lambda *_: reported.append(waiter)
        )
        waiter.acquire()

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        return _measure(run, send)
    finally:
        closing.set()
        polling.join()


async def _run_asyncio(run: ClientRun) -> dict[str, Any]:
    message = _message(run)
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

        await all_of(_warm_up(run))
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
        list(pool.map(repeat, [_warm_up(run)] * run.threads))
        latencies_ms.clear()
        started_s, processor_s = time.perf_counter(), time.process_time()
        list(pool.map(repeat, [run.transactions] * run.threads))
        took_s = time.perf_counter() - started_s
        return _measurement(run, took_s, time.process_time() - processor_s, latencies_ms)


def _warm_up(run: ClientRun) -> int:
    return max(1, int(run.transactions * WARM_UP_SHARE))


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


if __name__ == "__main__":
    print(json.dumps(run_client(ClientRun(**json.loads(sys.argv[1])))))
