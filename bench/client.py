"""How many transactions per second a client process gets through, and how long each takes."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)


@dataclass(frozen=True, kw_only=True)
class ClientMeasurement:
    """One run.

    Args:
        threads: threads that sent.
        transactions: how many they sent together.
        transactions_per_s: of all threads together.
        latency_p50_ms: half of the transactions took at most so long.
        latency_p99_ms: 99 of 100 took at most so long.
        latency_max_ms: the slowest.
        own_share: of the time that transactions took, the share in which no broker was waited
            for: from 0 to 1.
    """

    threads: int
    transactions: int
    transactions_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    latency_max_ms: float
    own_share: float


class _Empty(TransactionListener):
    """An empty local transaction, which notes how long the broker took for the half before it."""

    def __init__(self) -> None:
        self.producer: TransactionMQProducer | None = None
        self.waits_ms: list[float] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        if self.producer is not None and arg == message.topic:
            self.waits_ms.append(statistics.fmean(self.producer.broker_latencies_ms().values()))
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(
        self,
        message: MessageExt,  # noqa: ARG002 - whatever is asked was committed
    ) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


def measure_client(
    bootstrap_servers: str,
    *,
    threads: int,
    transactions: int,
    body_bytes: int,
    topic_prefix: str = "",
) -> ClientMeasurement:
    """Send transactions that commit at once, as fast as so many threads can.

    The time that a broker takes for a half is measured where its request leaves and its answer
    arrives; everything else that a transaction takes is the client's own.

    Args:
        bootstrap_servers: Kafka brokers, with Checkback's topics on them.
        threads: how many send.
        transactions: how many each of them sends.
        body_bytes: size of a message.
        topic_prefix: of Checkback's topics.

    Raises:
        CheckbackError: a transaction could not be sent; a broken run is not measured.
    """
    listener = _Empty()
    with TransactionMQProducer(
        "checkback-bench",
        bootstrap_servers=bootstrap_servers,
        transaction_listener=listener,
        topic_prefix=topic_prefix,
    ) as producer:
        message = Message("checkback-bench", b"x" * body_bytes, keys="k")
        producer.send_message_in_transaction(message)  # connections are made
        listener.producer = producer
        took_s, latencies_ms = _run(producer, message, threads, transactions)
    return _measurement(threads, took_s, latencies_ms, listener.waits_ms)


def _run(
    producer: TransactionMQProducer, message: Message, threads: int, transactions: int
) -> tuple[float, list[float]]:
    """Return how long all took together in seconds, and each alone in milliseconds."""
    latencies_ms: list[float] = []
    failures: list[Exception] = []

    def send() -> None:
        try:
            for _ in range(transactions):
                started_s = time.perf_counter()
                producer.send_message_in_transaction(message, message.topic)
                latencies_ms.append((time.perf_counter() - started_s) * 1000)
        except Exception as error:
            failures.append(error)
            raise

    workers = [threading.Thread(target=send) for _ in range(threads)]
    started_s = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return time.perf_counter() - started_s, latencies_ms


def _measurement(
    threads: int, took_s: float, latencies_ms: Sequence[float], waits_ms: Sequence[float]
) -> ClientMeasurement:
    shares = statistics.quantiles(latencies_ms, n=100, method="inclusive")
    waited = min(1.0, sum(waits_ms) / sum(latencies_ms))
    return ClientMeasurement(
        threads=threads,
        transactions=len(latencies_ms),
        transactions_per_s=round(len(latencies_ms) / took_s, 1),
        latency_p50_ms=round(shares[49], 2),
        latency_p99_ms=round(shares[98], 2),
        latency_max_ms=round(max(latencies_ms), 2),
        own_share=round(1 - waited, 3),
    )
