"""What unit tests of whole producers play with: Kafka clients that do what a test says."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.client.kafka.clock import BrokerClock
from checkback.client.kafka.delivery_reports import ThreadReport
from checkback.client.kafka.topics import TopicLeaders
from checkback.client.observing.counters import Counters
from checkback.client.sending.half import Half, InDoubtIds
from checkback.client.sending.half_producer import HalfProducer

TRANSPORT = KafkaException(KafkaError(KafkaError._TRANSPORT))
PURGED = KafkaError(KafkaError._PURGE_QUEUE)
COMMIT = LocalTransactionState.COMMIT_MESSAGE


def stored(
    topic: str = "t", partition: int = 0, offset: int = 7, time: tuple[int, int] = (0, -1)
) -> Any:
    """Return librdkafka's report of a record that it stored."""
    return SimpleNamespace(
        topic=lambda: topic, partition=lambda: partition, offset=lambda: offset,
        timestamp=lambda: time, latency=lambda: None,
    )  # fmt: skip


class QuietProducer:
    """librdkafka's producer, as far as the client uses it: takes records, and reports none."""

    def __init__(self) -> None:
        self.is_closed = False
        self.sent: list[dict[str, Any]] = []

    def produce(self, **record: Any) -> None:
        self.sent.append(record)

    def poll(self, timeout_s: float) -> None:
        # As librdkafka: a thread that polls and finds nothing must not spin.
        threading.Event().wait(min(timeout_s, 0.001))

    def purge(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def __len__(self) -> int:
        return 0


class Producer(QuietProducer):
    """Stores what it takes at the next poll, or fails it with its error.

    While it is silent, nothing is reported before a purge; while it refuses, it takes nothing.
    """

    def __init__(
        self,
        *,
        is_silent: bool = False,
        refuses: Exception | None = None,
        error: KafkaError | None = None,
        time: tuple[int, int] = (0, -1),
    ) -> None:
        super().__init__()
        self.is_silent, self.is_purged = is_silent, False
        self.refuses, self.error, self.time = refuses, error, time
        self.due: deque[dict[str, Any]] = deque()

    def produce(self, **record: Any) -> None:
        super().produce(**record)
        if self.refuses is not None:
            raise self.refuses
        if "on_delivery" in record:
            self.due.append(record)

    def poll(self, timeout_s: float) -> None:
        super().poll(timeout_s)
        while self.due and (self.is_purged or not self.is_silent):
            record = self.due.popleft()
            error = PURGED if self.is_purged else self.error
            record["on_delivery"](error, stored(record["topic"], time=self.time))

    def purge(self) -> None:
        self.is_purged = True

    def __len__(self) -> int:
        return len(self.due)


class Consumer:
    """A consumer without records."""

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        return 0, 0

    def assign(self, _: object) -> None:
        pass

    def subscribe(self, *_: object, **__: object) -> None:
        pass

    def poll(self, timeout_s: float) -> None:
        threading.Event().wait(min(timeout_s, 0.01))

    def consume(self, _: int, timeout_s: float) -> list[Any]:
        self.poll(timeout_s)
        return []

    def assignment(self) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class Admin:
    """Knows every topic, with one partition; what is asked of it is noted."""

    def __init__(self) -> None:
        self.asked: deque[tuple[str, int]] = deque()
        self.fails: dict[str, Any] = {}
        self.missing: set[str] = set()

    def list_topics(self, topic: str, *_: Any, **__: Any) -> Any:
        self.asked.append((topic, threading.get_ident()))
        failure = self.fails.get(topic)
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            failure()
        missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if topic in self.missing else None
        partitions = {} if missing else {0: SimpleNamespace(leader=1)}
        return SimpleNamespace(
            topics={topic: SimpleNamespace(error=missing, partitions=partitions)}
        )

    def describe_configs(self, asked: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        self.asked.append(("settings", threading.get_ident()))
        result: Future[Any] = Future()
        result.set_result({"max.message.bytes": SimpleNamespace(value="1000000")})
        return {asked[0]: result}


class Clients:
    """Takes the place of KafkaClients."""

    bootstrap_servers = "fake"

    def __init__(self, _servers: str, _client_id: str, options: Any) -> None:
        self.options = options
        self.opened_admin = Admin()
        self.halves: list[Producer] = []
        self.ops: list[Producer] = []
        self.plain: list[Producer] = []

    def half_producer(self, _: object, **__: object) -> Producer:
        self.halves.append(Producer())
        return self.halves[-1]

    def op_producer(self, *_: object) -> Producer:
        self.ops.append(Producer())
        return self.ops[-1]

    def plain_producer(self, _: object) -> Producer:
        self.plain.append(Producer())
        return self.plain[-1]

    def check_consumer(self, *_: str) -> Consumer:
        return Consumer()

    def status_consumer(self) -> Consumer:
        return Consumer()

    def admin(self) -> Admin:
        return self.opened_admin


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine of a test in an event loop of its own."""

    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **named), 60))

    return run


class Committing(TransactionListener):
    """Commits whatever it is asked about, unless its local transactions raise something."""

    def __init__(self, raised: BaseException | None = None) -> None:
        self._raised = raised

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        del message, arg
        if self._raised is not None:
            raise self._raised
        return COMMIT

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        del message
        return COMMIT


def producer_of(
    listener: TransactionListener | None = None, **options: Any
) -> TransactionMQProducer:
    return TransactionMQProducer(
        "g", bootstrap_servers="fake", transaction_listener=listener or Committing(), **options
    )


def half_producer(
    open_producer: Callable[[Any], Any], leaders: Sequence[int] = (1,), **changed: Any
) -> HalfProducer:
    """Return a producer of halves that tries once, over partitions with these leaders."""
    known = TopicLeaders(dict(enumerate(leaders)), tuple(range(len(leaders))), float("inf"))
    facts: Any = SimpleNamespace(topic=lambda _: known, refresh=lambda _: None)
    given: dict[str, Any] = {
        "in_doubt": InDoubtIds(), "counters": Counters(), "clock": BrokerClock(),
        "budget_ms": 5_000, "tries_max": 1, "avoid_faults": False,
    }  # fmt: skip
    return HalfProducer(open_producer, "half", facts, **(given | changed))


def store(producer: HalfProducer, half: Half) -> None:
    """Store a half, waiting in this thread."""
    for report, timeout_s in producer.store(half, ThreadReport):
        report.wait(timeout_s)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> list[Clients]:
    """Return the clients of each producer that is made in a test."""
    made: list[Clients] = []

    def make(*args: Any) -> Clients:
        made.append(Clients(*args))
        return made[-1]

    monkeypatch.setattr("checkback.client.producer.KafkaClients", make)
    monkeypatch.setattr("checkback.client.producer.STARTED", {})
    return made
