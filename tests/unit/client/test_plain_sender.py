"""What a shutdown leaves of plain sends for which nobody waits."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.producer_playing import QuietProducer

from checkback.client.kafka.topics import TopicLeaders
from checkback.client.message import Message, MessageQueue
from checkback.client.observing.counters import Counters
from checkback.client.options import ProducerOptions
from checkback.client.results import SendStatus
from checkback.client.sending.plain import PlainSender
from checkback.protocol.errors import InvalidMessageError, SendError
from checkback.testing.waiting import wait_until


class Kafka(QuietProducer):
    """Keeps records until it is purged; its reports then say so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Any] = []
        self.due: list[Any] = []

    def produce(self, **record: Any) -> None:
        self.held.append(record["on_delivery"])

    def answer(self, code: int) -> None:
        self.due += [(report, KafkaError(code)) for report in self.held]
        self.held.clear()

    def purge(self) -> None:
        self.answer(KafkaError._PURGE_QUEUE)

    def poll(self, timeout_s: float) -> None:
        super().poll(timeout_s)
        while self.due:
            report, error = self.due.pop(0)
            report(error, SimpleNamespace())

    def __len__(self) -> int:
        return len(self.held)


def sender_of(kafka: Kafka, **options: Any) -> PlainSender:
    facts: Any = SimpleNamespace(
        topic=lambda _: TopicLeaders({0: 1}, (0,), float("inf")), refresh=lambda _: None
    )
    open_producer: Any = lambda _: kafka  # noqa: E731
    return PlainSender(open_producer, facts, lambda: "id", ProducerOptions(**options), Counters())


def choice(_: int | None) -> tuple[MessageQueue, int | None]:
    return MessageQueue("t", 0), 1


def test_a_send_that_is_purged_at_shutdown_ends() -> None:
    sender = sender_of(Kafka())
    result = sender.send_async(Message("t", b"x"), choice, 3)
    assert sender.close(0) == 1
    with pytest.raises(SendError, match="shut down") as failure:
        result.result(60)
    assert failure.value.fields["in_doubt"] is True


def test_a_send_that_waits_for_its_next_try_at_shutdown_ends() -> None:
    kafka = Kafka()
    sender = sender_of(kafka, async_sends_max=1)
    result = sender.send_async(Message("t", b"x"), choice, 3)
    kafka.answer(KafkaError.NOT_LEADER_FOR_PARTITION)
    assert sender.close(1) == 1
    with pytest.raises(SendError, match="shut down"):
        result.result(60)


def test_sends_that_ended_before_are_not_left() -> None:
    kafka = Kafka()
    sender = sender_of(kafka)
    result = sender.send_async(Message("t", b"x"), choice, 1)
    kafka.answer(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(SendError):
        result.result(60)
    assert sender.close(0) == 0


def test_the_callback_of_a_send_may_shut_its_producer_down() -> None:
    kafka = Kafka()
    sender = sender_of(kafka)
    closed: deque[int] = deque()
    results = [sender.send_async(Message("t", b"x"), choice, 3) for _ in range(2)]
    results[0].add_done_callback(lambda _: closed.append(sender.close(0)))
    kafka.due.append((kafka.held.pop(0), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    for result in results:
        with pytest.raises(SendError):
            result.result(60)
    wait_until(lambda: list(closed) == [1], what="the shutdown")


def test_a_send_that_comes_while_the_producer_closes_ends() -> None:
    sender = sender_of(Kafka())
    sender.close(0)
    with pytest.raises(SendError, match="shut down"):
        sender.send_async(Message("t", b"x"), choice, 3).result(60)


def test_a_message_does_not_go_to_a_queue_of_another_topic() -> None:
    """Only its own topic was looked at: the other may be one of the system's."""
    sender = sender_of(Kafka())
    other = MessageQueue("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
    with pytest.raises(InvalidMessageError, match="the queue is one of"):
        sender.fixed(Message("t", b"x"), other)
    with pytest.raises(InvalidMessageError, match="the queue is one of"):
        sender.by_selector(Message("t", b"x"), lambda *_: other, None)
    assert sender.by_selector(Message("t", b"x"), lambda queues, *_: queues[0], None)(None) == (
        MessageQueue("t", 0),
        1,
    )
    sender.close(0)


@pytest.mark.parametrize("tries_again", [False, True])
def test_a_message_that_only_the_leader_has_is_sent_again_where_the_option_says_so(
    tries_again: bool,
) -> None:
    kafka = Kafka()
    sender = sender_of(kafka, retry_another_broker_when_not_store_ok=tries_again)
    result = sender.send_async(Message("t", b"x"), choice, 3)
    kafka.answer(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    wait_until(lambda: bool(kafka.held) if tries_again else result.done(), what="what follows")
    assert result.done() is not tries_again
    if not tries_again:
        assert result.result().send_status is SendStatus.SLAVE_NOT_AVAILABLE
    sender.close(0)


@pytest.mark.parametrize("avoids", [False, True])
def test_a_broker_that_was_silent_is_avoided_for_a_while_where_the_option_says_so(
    avoids: bool,
) -> None:
    sender = sender_of(Kafka(), send_latency_fault_enable=avoids)
    leaders = TopicLeaders({0: 1, 1: 2}, (0, 1), float("inf"))
    sender._facts = SimpleNamespace(topic=lambda _: leaders, refresh=lambda _: None)  # type: ignore[assignment]
    choose = sender.by_turns(Message("t", b"x"))
    assert choose(1)[1] == 2

    later = {choose(None)[1] for _ in range(4)}
    assert later == ({2} if avoids else {1, 2})
    sender.close(0)
