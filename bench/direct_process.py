"""One process of ``checkback bench direct``: ``python direct_process.py RUN``, RUN as JSON.

Three kinds: one sends, one reads committed messages, one dies with a transaction open. Times are of
the machine's monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.client.counters import ClientEvent
from checkback.client.kafka_clients import KafkaClients
from checkback.client.options import ProducerOptions
from checkback.protocol.direct import direct_transactional_id

SEND: Final = "send"
READ: Final = "read"
DIE: Final = "die"
GROUP: Final = "checkback-bench"
SETTLE_S: Final = 30.0
SILENCE_S: Final = 120.0
"""How long nothing may come until a reader gives up: a pipeline's first batch took 41 s on a busy
machine."""
POLL_S: Final = 0.05
AT_ONCE_MAX: Final = 500
NUMBER_BYTES: Final = 8
COMMIT: Final = LocalTransactionState.COMMIT_MESSAGE


@dataclass(frozen=True, kw_only=True)
class DirectRun:
    """What one process does.

    Args:
        kind: send, read or die.
        bootstrap_servers: Kafka brokers, with Checkback's topics and the real one on them.
        topic_prefix: of Checkback's topics.
        real_topic: where the messages go.
        times: file for the times: when each local transaction committed, or each message was
            seen; by its number.
        first: number of the first message. Runs on one topic have ranges of their own: what an
            earlier one left may still come.
        lanes: of the sender; 0 for the checked way.
        threads: of the sender.
        transactions: how many.
        per_s: at which rate; 0 as fast as possible.
        body_bytes: size of a message.
    """

    kind: str
    bootstrap_servers: str
    topic_prefix: str
    real_topic: str
    times: str
    first: int = 0
    lanes: int = 0
    threads: int = 1
    transactions: int = 0
    per_s: float = 0
    body_bytes: int = 200


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What a sender tells.

    Args:
        took_s: from the first send to the last return, or to the last delivery.
        processor_us: processor time for each transaction.
        delivered: messages that went direct.
        fell_back: messages that were to go direct and went the checked way.
    """

    took_s: float
    processor_us: float
    delivered: int
    fell_back: int


class _Noting(TransactionListener):
    """Notes when it commits."""

    def __init__(self, transactions: int, first: int) -> None:
        self.times = array("d", bytes(8 * transactions))
        self.first = first

    def execute_local_transaction(
        self,
        message: Message,
        arg: Any,  # noqa: ARG002
    ) -> LocalTransactionState:
        number = int.from_bytes(message.body[:NUMBER_BYTES], "big")
        self.times[number - self.first] = time.perf_counter()
        return COMMIT

    def check_local_transaction(
        self,
        message: MessageExt,  # noqa: ARG002 - whatever is asked was committed
    ) -> LocalTransactionState:
        return COMMIT


def send(run: DirectRun) -> Sent:
    """Send transactions that commit at once.

    Raises:
        CheckbackError: one could not be sent.
    """
    listener = _Noting(run.transactions, run.first)
    with TransactionMQProducer(
        GROUP,
        bootstrap_servers=run.bootstrap_servers,
        transaction_listener=listener,
        topic_prefix=run.topic_prefix,
        direct_delivery=run.lanes > 0,
        direct_lanes=max(1, run.lanes),
        shutdown_timeout_ms=int(SETTLE_S * 1000),
    ) as producer:
        processor_s, started_s = time.process_time(), time.perf_counter()
        _in_threads(run, producer, started_s)
        if run.lanes:
            _wait_for_the_end(producer, run.transactions)
        took_s = time.perf_counter() - started_s
        processor_us = (time.process_time() - processor_s) / run.transactions * 1_000_000
    Path(run.times).write_bytes(listener.times.tobytes())
    counts = producer.counters.snapshot()
    return Sent(
        took_s=took_s,
        processor_us=round(processor_us, 1),
        delivered=counts[ClientEvent.DIRECT_DELIVERED],
        fell_back=counts[ClientEvent.DIRECT_FELL_BACK],
    )


def read(run: DirectRun) -> int:
    """Note when each message is seen by a reader of committed messages; return how many were."""
    consumer = Consumer(
        {
            "bootstrap.servers": run.bootstrap_servers,
            "group.id": f"{run.topic_prefix}{os.getpid()}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "latest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    assigned = threading.Event()
    consumer.subscribe([run.real_topic], on_assign=lambda *_: assigned.set())
    while not assigned.is_set():
        consumer.poll(POLL_S)
    consumer.poll(POLL_S)
    print("reading", flush=True)
    times = array("d", bytes(8 * run.transactions))
    seen, last_s = 0, time.perf_counter()
    while seen < run.transactions and time.perf_counter() - last_s < SILENCE_S:
        # consume() waits for all that it was asked for, or its whole time.
        first = consumer.poll(POLL_S)
        now_s = time.perf_counter()
        messages = [] if first is None else [first, *consumer.consume(AT_ONCE_MAX, 0)]
        for message in messages:
            body = message.value()
            if message.error() is not None or body is None:
                continue
            at = int.from_bytes(body[:NUMBER_BYTES], "big") - run.first
            if 0 <= at < run.transactions:
                times[at] = now_s
                seen, last_s = seen + 1, now_s
    consumer.close()
    Path(run.times).write_bytes(times.tobytes())
    return seen


def die(run: DirectRun) -> None:
    """Hand a message to Kafka in a direct session's transaction, and end by force before commit."""
    clients = KafkaClients(run.bootstrap_servers, GROUP, ProducerOptions())
    producer = clients.direct_producer(
        direct_transactional_id(run.topic_prefix, GROUP, os.urandom(16).hex())
    )
    producer.init_transactions(SETTLE_S)
    producer.begin_transaction()
    producer.produce(run.real_topic, bytes(NUMBER_BYTES), partition=0)
    producer.flush(SETTLE_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _in_threads(run: DirectRun, producer: TransactionMQProducer, started_s: float) -> None:
    failures: list[Exception] = []
    filling = b"x" * max(0, run.body_bytes - NUMBER_BYTES)

    def repeat(first: int) -> None:
        try:
            for number in range(first, run.transactions, run.threads):
                if run.per_s:
                    time.sleep(max(0.0, started_s + number / run.per_s - time.perf_counter()))
                body = (run.first + number).to_bytes(NUMBER_BYTES, "big") + filling
                producer.send_message_in_transaction(Message(run.real_topic, body))
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=repeat, args=(one,)) for one in range(run.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


def _wait_for_the_end(producer: TransactionMQProducer, transactions: int) -> None:
    """Wait until every message is delivered, or goes the checked way."""
    deadline_s = time.perf_counter() + SETTLE_S
    ended = 0
    while ended < transactions and time.perf_counter() < deadline_s:
        counts = producer.counters.snapshot()
        ended = counts[ClientEvent.DIRECT_DELIVERED] + counts[ClientEvent.DIRECT_FELL_BACK]
        time.sleep(0.002)


def main(run: DirectRun) -> None:
    """Do one run, and print what came of it."""
    if run.kind == SEND:
        print(json.dumps(asdict(send(run))))
    elif run.kind == READ:
        print(json.dumps({"seen": read(run)}))
    else:
        die(run)


if __name__ == "__main__":
    main(DirectRun(**json.loads(sys.argv[1])))
