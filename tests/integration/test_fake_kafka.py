"""The Kafka in memory does what a real broker does: each script runs over both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from tests.fakes.kafka.admin import FakeAdminClient
from tests.fakes.kafka.awaits import Awaits
from tests.fakes.kafka.clock import Clock
from tests.fakes.kafka.cluster import Cluster
from tests.fakes.kafka.consumer import FakeConsumer
from tests.fakes.kafka.producer import FakeProducer
from tests.integration.sinking import create_listed

from checkback.testing.waiting import wait_until

TIMEOUT_S = 30.0
SHORT_S = 2.0


@dataclass
class Clients:
    """Makes clients of one cluster, over topics of one test."""

    topic: str
    producer_of: Callable[[dict[str, Any]], Any]
    consumer_of: Callable[[dict[str, Any]], Any]
    admin: Any
    rejected: list[int] = field(default_factory=list)

    @property
    def group(self) -> str:
        return f"{self.topic}-group"

    def producer(self, **settings: Any) -> Any:
        found = self.producer_of(
            {
                "transactional.id": f"{self.topic}-id",
                "transaction.timeout.ms": 60_000,
                "topic.metadata.propagation.max.ms": 2_000,
                "on_delivery": self.take,
                "log_level": 0,
                **settings,
            }
        )
        found.init_transactions(TIMEOUT_S)
        return found

    def begun(self, **settings: Any) -> Any:
        """Return a producer with an open transaction."""
        found = self.producer(**settings)
        found.begin_transaction()
        return found

    def take(self, error: KafkaError | None, _: Message) -> None:
        self.rejected.extend([] if error is None else [error.code()])

    def consumer(self) -> Any:
        return self.consumer_of(
            {
                "group.id": self.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )

    def place(self, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self.topic, 0, offset)

    def send(self, producer: Any, *bodies: bytes) -> None:
        for body in bodies:
            producer.produce(self.topic, body, None, 0)
        producer.flush(TIMEOUT_S)

    def move(self, producer: Any, offset: int) -> None:
        group = self.consumer().consumer_group_metadata()
        place = TopicPartition(self.topic, 0, offset, "ours")
        producer.send_offsets_to_transaction([place], group, TIMEOUT_S)

    def reset(self, offset: int) -> None:
        request = ConsumerGroupTopicPartitions(self.group, [self.place(offset)])
        for answer in self.admin.alter_consumer_group_offsets([request]).values():
            answer.result()

    def committed(self, timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
        [found] = self.consumer().committed([self.place()], timeout_s)
        return found.offset, found.metadata or ""

    def bodies(self) -> list[bytes | None]:
        consumer = self.consumer()
        consumer.assign([self.place(0)])
        _, end = consumer.get_watermark_offsets(self.place(), TIMEOUT_S)
        found = []
        while (message := consumer.poll(SHORT_S)) is not None:
            found.append(message.value())
        assert len(found) <= end
        return found

    def end(self) -> int:
        return int(self.consumer().get_watermark_offsets(self.place(), TIMEOUT_S)[1])

    def wait_for_end(self, offset: int) -> None:
        """Wait for the markers: a transaction is ended before brokers have written its last one."""
        wait_until(lambda: self.end() >= offset, what=f"end {offset}")


@pytest.fixture(params=["in memory", "broker"])
def clients(request: pytest.FixtureRequest, unique: str) -> Clients:
    made = in_memory(unique) if request.param == "in memory" else on_broker(request, unique)
    topic = NewTopic(made.topic, 1, 1, config={"max.message.bytes": "1000"})
    create_listed(made.admin, topic)
    return made


def in_memory(topic: str) -> Clients:
    cluster = Cluster(Awaits(Clock()))
    return Clients(
        topic,
        lambda settings: FakeProducer(cluster, settings),
        lambda settings: FakeConsumer(cluster, settings),
        FakeAdminClient(cluster, {}),
    )


def on_broker(request: pytest.FixtureRequest, topic: str) -> Clients:
    servers = {"bootstrap.servers": request.getfixturevalue("bootstrap_servers")}
    return Clients(
        topic,
        lambda settings: Producer({**servers, **settings}),
        lambda settings: Consumer({**servers, **settings}),
        AdminClient({**servers, "log_level": 0}),
    )


def failure_of(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as failure:
        call()
    error = failure.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def test_records_of_an_aborted_transaction_are_never_seen(clients: Clients) -> None:
    producer = clients.producer()
    for body, ended in ((b"a", "abort_transaction"), (b"b", "commit_transaction")):
        producer.begin_transaction()
        clients.send(producer, body)
        getattr(producer, ended)(TIMEOUT_S)
    clients.wait_for_end(4)

    assert clients.bodies() == [b"b"]
    assert clients.end() == 4  # two records, two markers


def test_an_open_transaction_holds_readers_up(clients: Clients) -> None:
    producer = clients.begun()
    clients.send(producer, b"a", b"b")

    assert (clients.bodies(), clients.end()) == ([], 0)
    producer.commit_transaction(TIMEOUT_S)
    clients.wait_for_end(3)
    assert (clients.bodies(), clients.end()) == ([b"a", b"b"], 3)


def test_a_successor_ends_the_open_transaction_and_shuts_its_writer_out(clients: Clients) -> None:
    old = clients.begun()
    clients.send(old, b"never")
    clients.move(old, 7)

    clients.producer()

    assert clients.committed() == (-1001, "")
    assert clients.bodies() == []
    error = failure_of(lambda: old.commit_transaction(TIMEOUT_S))
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert failure_of(old.begin_transaction).fatal()


def test_a_successor_shuts_a_writer_out_that_only_sends(clients: Clients) -> None:
    old = clients.begun()
    clients.send(old, b"never")
    clients.producer()
    old.produce(clients.topic, b"late", None, 0)
    with suppress(SystemError):  # see sinks.kafka.errors
        old.flush(TIMEOUT_S)

    assert failure_of(lambda: clients.move(old, 7)).fatal()
    assert clients.bodies() == []


def test_offsets_of_a_transaction_count_once_it_is_committed(clients: Clients) -> None:
    producer = clients.begun()
    clients.move(producer, 7)

    error = failure_of(lambda: clients.committed(SHORT_S))
    assert error.code() == KafkaError._TIMED_OUT
    producer.commit_transaction(TIMEOUT_S)
    assert clients.committed() == (7, "ours")


def test_a_reset_takes_the_metadata_away(clients: Clients) -> None:
    producer = clients.begun()
    clients.move(producer, 7)
    producer.commit_transaction(TIMEOUT_S)

    clients.reset(3)

    assert clients.committed() == (3, "")


def test_of_a_reset_and_an_older_commit_that_ends_later_the_reset_holds(clients: Clients) -> None:
    producer = clients.begun()
    clients.move(producer, 7)
    clients.reset(3)
    producer.commit_transaction(TIMEOUT_S)

    assert clients.committed() == (3, "")


def test_a_deleted_group_loses_what_is_pending_too(clients: Clients) -> None:
    producer = clients.begun()
    clients.move(producer, 6)
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    clients.move(producer, 7)
    clients.admin.delete_consumer_groups([clients.group])[clients.group].result()
    producer.commit_transaction(TIMEOUT_S)

    assert clients.committed() == (-1001, "")


def test_a_batch_too_large_for_its_topic_is_rejected_record_by_record(clients: Clients) -> None:
    producer = clients.begun()
    clients.send(producer, bytes(700), bytes(700))

    assert clients.rejected == [KafkaError.MSG_SIZE_TOO_LARGE] * 2
    error = failure_of(lambda: producer.commit_transaction(TIMEOUT_S))
    assert error.txn_requires_abort()
    assert not error.fatal()


def test_a_record_too_large_for_its_producer_is_not_queued(clients: Clients) -> None:
    producer = clients.begun(**{"message.max.bytes": 2_000})

    error = failure_of(lambda: producer.produce(clients.topic, bytes(3_000), None, 0))
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_nothing_is_sent_outside_a_transaction(clients: Clients) -> None:
    producer = clients.producer()

    error = failure_of(lambda: producer.produce(clients.topic, b"a", None, 0))
    assert error.code() == KafkaError._STATE
    assert failure_of(lambda: producer.commit_transaction(TIMEOUT_S)).code() == KafkaError._STATE
    producer.begin_transaction()
    assert failure_of(producer.begin_transaction).code() == KafkaError._STATE


def test_a_transaction_without_anything_in_it_can_be_committed(clients: Clients) -> None:
    producer = clients.producer()
    for _ in range(2):
        producer.begin_transaction()
        producer.commit_transaction(TIMEOUT_S)

    assert clients.bodies() == []


def test_a_producer_that_is_closed_ends_what_it_has_open(clients: Clients) -> None:
    producer = clients.begun()
    # By position, as confluent-kafka takes them.
    producer.produce(clients.topic, b"a", b"k", 0, None, None, 17, [("name", b"value")])
    producer.flush(TIMEOUT_S)

    producer.close()
    clients.wait_for_end(2)

    assert (clients.bodies(), clients.end()) == ([], 2)  # the record, and that it was aborted
