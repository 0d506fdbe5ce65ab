"""Plain sends: SYNC, ASYNC, ONEWAY, and who chooses the queue."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from kafka import KafkaProducer
from tests.integration.client.playing import Checkback, eventually, header

from checkback.client import (
    DefaultMQProducer,
    Message,
    MessageQueue,
    SendResult,
    SendStatus,
    ServiceState,
)
from checkback.client.observing.counters import ClientEvent
from checkback.protocol import properties as names
from checkback.protocol.errors import BrokerError, LifeCycleError
from checkback.protocol.topics import TopicPlan


@pytest.fixture
def topic(checkback: Checkback, unique: str) -> str:
    name = f"{unique}plain"
    checkback.create(TopicPlan(name, 3))
    return name


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer("plain", bootstrap_servers=bootstrap_servers) as running:
        yield running


def test_a_message_arrives_as_it_was_sent(
    checkback: Checkback, producer: DefaultMQProducer, topic: str
) -> None:
    message = Message(topic, b"\x00", keys="k", tags="t", properties={"traceparent": "00-1"})
    result = producer.send(message)

    (stored,) = checkback.read(topic, 1)
    assert (stored.key, stored.value) == (b"k", b"\x00")
    assert header(stored, "traceparent") == "00-1"
    assert header(stored, names.KEYS) == "k"
    assert header(stored, names.TAGS) == "t"
    assert header(stored, names.UNIQ_KEY) == result.msg_id
    assert result.send_status is SendStatus.SEND_OK
    assert result.message_queue == MessageQueue(topic, stored.partition)
    assert result.queue_offset == stored.offset


def queue_ids(results: Sequence[SendResult]) -> list[int]:
    return [result.message_queue.queue_id for result in results if result.message_queue]


def test_a_record_key_chooses_as_with_any_kafka_client(
    bootstrap_servers: str, producer: DefaultMQProducer, topic: str
) -> None:
    kafka = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for number in range(6):
        key = b"key-%d" % number
        theirs = kafka.send(topic, b"x", key).get(10)
        assert queue_ids([producer.send(Message(topic, b"x", key=key))]) == [theirs.partition]
    kafka.close()


def test_the_application_chooses(producer: DefaultMQProducer, topic: str) -> None:
    def last(queues: Sequence[MessageQueue], message: Message, argument: Any) -> MessageQueue:
        assert argument == "any"
        return queues[-1]

    queues = producer.fetch_publish_message_queues(topic)
    assert queues == [MessageQueue(topic, number) for number in range(3)]
    chosen = [
        producer.send(Message(topic, b"x"), selector=last, argument="any"),
        producer.send_to_queue(Message(topic, b"x"), queues[1]),
        producer.send(Message(topic, b"x", queue_id=0)),
    ]
    assert queue_ids(chosen) == [2, 1, 0]


def test_a_topic_that_is_not_there_is_not_made(bootstrap_servers: str, unique: str) -> None:
    with (
        DefaultMQProducer(
            "plain", bootstrap_servers=bootstrap_servers, send_msg_timeout_ms=500
        ) as producer,
        pytest.raises(BrokerError, match="can't be seen"),
    ):
        producer.send(Message(f"{unique}nowhere", b"x"))


def test_async_gives_a_future_and_calls_back(
    checkback: Checkback, producer: DefaultMQProducer, topic: str
) -> None:
    called: list[Future[SendResult]] = []
    sends = [producer.send_async(Message(topic, b"x"), called.append) for _ in range(20)]

    results = [send.result(10) for send in sends]

    assert {result.send_status for result in results} == {SendStatus.SEND_OK}
    eventually(lambda: len(called) == 20)
    assert producer.counters.snapshot()[ClientEvent.SENT] == 20
    assert len(checkback.read(topic, 20)) == 20


def test_one_way_is_sent_before_shutdown_ends(
    checkback: Checkback, producer: DefaultMQProducer, topic: str
) -> None:
    for _ in range(20):
        producer.send_one_way(Message(topic, b"x"))
    producer.shutdown()
    assert len(checkback.read(topic)) == 20


def test_a_forked_child_may_not_use_it(producer: DefaultMQProducer, topic: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            producer.send(Message(topic, b"x"))
        except LifeCycleError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert producer.send(Message(topic, b"x")).send_status is SendStatus.SEND_OK
    assert producer.service_state is ServiceState.RUNNING


def test_threads_share_one(checkback: Checkback, producer: DefaultMQProducer, topic: str) -> None:
    def send() -> None:
        for _ in range(25):
            producer.send(Message(topic, b"x"))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(checkback.read(topic, 200)) == 200
