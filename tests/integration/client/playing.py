"""What the tests of the client play with: a scripted listener, and the pipeline's side by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Unpack

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError, TopicAlreadyExistsError
from kafka.structs import TopicPartition
from tests.integration.running import Topics

from checkback.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionListener,
    TransactionMQProducer,
)
from checkback.client.options import ProducerKeywords
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import kafka_python_settings
from checkback.protocol.properties import (
    COMMIT_OR_ROLLBACK,
    TRANSACTION_CHECK_INTERVAL_MS,
    UNIQ_KEY,
    text_value,
)
from checkback.protocol.records import check_headers
from checkback.protocol.topics import TopicNames, TopicPlan, plan_topics


class Scripted(TransactionListener):
    """Answers what the test told it to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.execute: Callable[[Message, Any], Any] = lambda *_: (
            LocalTransactionState.COMMIT_MESSAGE
        )
        self.check: Callable[[MessageExt], Any] = lambda *_: LocalTransactionState.COMMIT_MESSAGE
        self.executed: list[tuple[Message, Any]] = []
        self.checked: list[MessageExt] = []

    def execute_local_transaction(self, message: Message, arg: Any) -> Any:
        self.executed.append((message, arg))
        return self.execute(message, arg)

    def check_local_transaction(self, message: MessageExt) -> Any:
        self.checked.append(message)
        return self.check(message)


def producer_over(
    topics: Topics, group: str, listener: TransactionListener, **options: Any
) -> TransactionMQProducer:
    """Return a producer of a deployment; as a context manager it runs inside the block."""
    return TransactionMQProducer(
        group,
        bootstrap_servers=topics.bootstrap_servers,
        transaction_listener=listener,
        topic_prefix=topics.prefix,
        **options,
    )


class Checkback:
    """What surrounds a client: the topics, and the pipeline's side of them played by hand."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.connection = kafka_python_settings(bootstrap_servers, {})
        self.prefix = prefix
        # A group of its own: a killed member holds up whoever joins or leaves until its session
        # ends, and all tests of a process share the broker.
        self.group = f"{prefix}orders"
        self.names = TopicNames(prefix)
        self.started: list[TransactionMQProducer] = []

    def create_topics(self, without: Sequence[str] = (), **changes: Any) -> None:
        plans = plan_topics(Settings(topic_prefix=self.prefix, half_retention_ms=86_400_000), 1)
        self.create(*(plan for plan in plans if plan.name not in without), **changes)
        self.create_real()

    def create_real(self) -> None:
        """Create the real topics of tests and examples, which all tests on a broker share."""
        admin: Any = KafkaAdminClient(**self.connection)
        for topic in ("paid", "done"):
            with suppress(TopicAlreadyExistsError):
                admin.create_topics({topic: {"num_partitions": 4}}, wait_for_metadata=True)
        admin.close()

    def create_topic(self, name: str, configs: dict[str, str]) -> None:
        self.create(TopicPlan(name, 2, configs))

    def create(self, *plans: TopicPlan, **changes: Any) -> None:
        admin: Any = KafkaAdminClient(**self.connection)
        topics = {
            plan.name: {
                "num_partitions": plan.partitions or 1,
                "configs": dict(plan.configs),
                **changes,
            }
            for plan in plans
        }
        admin.create_topics(topics, wait_for_metadata=True)
        admin.close()

    def grow(self, topic: str, partitions: int) -> None:
        admin: Any = KafkaAdminClient(**self.connection)
        admin.create_partitions({topic: partitions})
        admin.close()

    def producer(
        self,
        listener: TransactionListener,
        group: str | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> TransactionMQProducer:
        """Return a started producer, shut down when the test ends."""
        options.setdefault("topic_prefix", self.prefix)
        producer = TransactionMQProducer(
            group or self.group,
            bootstrap_servers=self.bootstrap_servers,
            transaction_listener=listener,
            **options,
        )
        producer.start()
        self.started.append(producer)
        return producer

    def read(self, topic: str, least: int = 0, timeout_s: float = 180.0) -> list[Any]:
        """Return all records of a topic, after waiting until it has that many."""
        consumer = KafkaConsumer(**self.connection)
        partitions = partitions_of(consumer, topic)
        consumer.assign(partitions)
        deadline_s = time.monotonic() + timeout_s
        ends = consumer.end_offsets(partitions)
        while sum(ends.values()) < least and time.monotonic() < deadline_s:
            time.sleep(0.02)
            ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        records: list[Any] = []
        while len(records) < sum(ends.values()) and time.monotonic() < deadline_s:
            for some in consumer.poll(200).values():
                records.extend(some)
        consumer.close()
        return sorted(records, key=lambda record: (record.timestamp, record.partition))

    def halves(self, least: int = 0) -> list[Any]:
        return self.read(self.names.half, least)

    def ops(self, least: int = 0) -> list[Any]:
        return self.read(self.names.op, least)

    def verdicts(self, least: int) -> dict[str | None, str | None]:
        """Return what the last op of each transaction says, by transaction id."""
        return {header(op, UNIQ_KEY): header(op, COMMIT_OR_ROLLBACK) for op in self.ops(least)}

    def ask(
        self,
        half: Any,
        times: int = 1,
        group: str | None = None,
        interval_ms: int = 60_000,
        partition: int | None = None,
        age_ms: int = 0,
    ) -> None:
        """Write a check request for a half, as the pipeline did `age_ms` ago."""
        producer = KafkaProducer(**self.connection)
        headers = check_headers(half.headers, half.partition, half.offset, times)
        headers.append((TRANSACTION_CHECK_INTERVAL_MS, b"%d" % interval_ms))
        asked_ms = int(time.time() * 1000) - age_ms
        topic = self.names.check(group or self.group)
        producer.send(topic, half.value, half.key, headers, partition, asked_ms).get(10)
        producer.close()


def header(record: Any, name: str) -> str | None:
    """Return a record's header as text."""
    return text_value(record.headers, name)


def partitions_of(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    """Return a topic's partitions, also where kafka-python first asks a broker that is down."""

    def asked() -> list[list[TopicPartition]]:
        with suppress(KafkaConnectionError):
            return [
                [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic) or ()]
            ]
        return []

    found: list[TopicPartition] = eventually(asked)[0]
    return found


def eventually(condition: Callable[[], Any], timeout_s: float = 180.0) -> Any:
    """Wait until a condition is truthy and return its value; fail when it does not become so."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.02)
    return value
