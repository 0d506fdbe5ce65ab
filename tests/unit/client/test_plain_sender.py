"""Plain sends, with librdkafka's answers given."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.producer_playing import QuietProducer, stored

from checkback.client.kafka.queue_selection import BY_KEY
from checkback.client.kafka.topics import TopicLeaders
from checkback.client.message import Message, MessageQueue
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerOptions
from checkback.client.results import SendStatus
from checkback.client.sending.plain import PlainSender
from checkback.protocol.errors import InvalidMessageError, SendError
from checkback.protocol.properties import UNIQ_KEY
from checkback.testing.waiting import wait_until


class Kafka(QuietProducer):
    """Keeps records until the test answers them, or until it is purged."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Any] = []
        self.due: list[Any] = []

    def produce(self, **record: Any) -> None:
        self.held.append(record["on_delivery"])

    def answer(self, code: int | None) -> None:
        error = None if code is None else KafkaError(code)
        self.due += [(report, error) for report in self.held]
        self.held.clear()

    def purge(self) -> None:
        self.answer(KafkaError._PURGE_QUEUE)

    def poll(self, timeout_s: float) -> None:
        super().poll(timeout_s)
        while self.due:
            report, error = self.due.pop(0)
            report(error, stored(partition=5))

    def __len__(self) -> int:
        return len(self.held)


def sender_of(kafka: Kafka, **options: Any) -> PlainSender:
    facts: Any = SimpleNamespace(
        topic=lambda _: TopicLeaders({0: 1, 1: 2}, (0, 1), float("inf")), refresh=lambda _: None
    )
    open_producer: Any = lambda _: kafka  # noqa: E731
    return PlainSender(open_producer, facts, lambda: "id", ProducerOptions(**options), Counters())


MESSAGE = Message("t", b"x")
QUEUE = MessageQueue("t", 0)
UNSAFE = KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize(
    ("queue", "code", "status", "offset", "found"),
    [
        (QUEUE, None, SendStatus.SEND_OK, 7, QUEUE),
        (QUEUE, UNSAFE, SendStatus.SLAVE_NOT_AVAILABLE, -1, QUEUE),
        (MessageQueue("t", BY_KEY), None, SendStatus.SEND_OK, 7, MessageQueue("t", 5)),
        (MessageQueue("t", BY_KEY), UNSAFE, SendStatus.SLAVE_NOT_AVAILABLE, -1,
         MessageQueue("t", 5)),
    ],
)  # fmt: skip
def test_a_message_that_a_broker_has_is_a_result(
    queue: MessageQueue, code: int | None, status: SendStatus, offset: int, found: MessageQueue
) -> None:
    kafka = Kafka()
    sender = sender_of(kafka)
    sent = sender.send_async(MESSAGE, queue)
    kafka.answer(code)
    result = sent.result(60)
    assert (result.send_status, result.queue_offset) == (status, offset)
    assert (result.message_queue, result.msg_id) == (found, "id")
    assert sender._counters.snapshot()[ClientEvent.SENT] == 1
    assert sender.close(0) == 0


@pytest.mark.parametrize(
    ("code", "in_doubt"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, False), (KafkaError._MSG_TIMED_OUT, True)],
)
def test_an_error_says_whether_the_message_may_be_stored(code: int, in_doubt: bool) -> None:
    kafka = Kafka()
    sender = sender_of(kafka)
    result = sender.send_async(MESSAGE, QUEUE)
    kafka.answer(code)
    with pytest.raises(SendError) as failure:
        result.result(60)
    assert failure.value.fields["in_doubt"] is in_doubt
    assert sender._counters.snapshot()[ClientEvent.SEND_FAILED] == 1
    assert sender.close(0) == 0


def test_a_send_without_a_report_ends_with_its_time_and_stays_ended() -> None:
    kafka = Kafka()
    sender = sender_of(kafka, send_msg_timeout_ms=10)
    with pytest.raises(SendError, match="within 10 ms") as failure:
        sender.send(MESSAGE, QUEUE)
    assert failure.value.fields["in_doubt"] is True
    kafka.answer(None)
    assert sender.close(1) == 0
    assert sender._counters.snapshot()[ClientEvent.SENT] == 0


@pytest.mark.parametrize(
    ("raised", "ends_by"),
    [(BufferError(), SendError), (RuntimeError(), SendError), (TypeError("no bytes"), TypeError)],
)
def test_what_librdkafka_does_not_take_is_the_result(
    raised: Exception, ends_by: type[Exception]
) -> None:
    kafka = Kafka()

    def refuse(**_: Any) -> None:
        raise raised

    kafka.produce = refuse  # type: ignore[method-assign]
    sender = sender_of(kafka, async_sends_max=1)
    for _ in range(2):  # none keeps its room
        with pytest.raises(ends_by):
            sender.send_async(MESSAGE, QUEUE).result(60)
    sender.close(0)


def test_a_send_that_is_purged_at_shutdown_ends() -> None:
    sender = sender_of(Kafka())
    result = sender.send_async(MESSAGE, QUEUE)
    assert sender.close(0) == 1
    with pytest.raises(SendError, match="shut down") as failure:
        result.result(60)
    assert failure.value.fields["in_doubt"] is True


def test_the_callback_of_a_send_may_shut_its_producer_down() -> None:
    kafka = Kafka()
    sender = sender_of(kafka)
    closed: deque[int] = deque()
    results = [sender.send_async(MESSAGE, QUEUE) for _ in range(2)]
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
        sender.send_async(MESSAGE, QUEUE).result(60)


def test_a_message_does_not_go_to_a_queue_of_another_topic() -> None:
    """Only its own topic was looked at: the other may be one of the system's."""
    sender = sender_of(Kafka())
    other = MessageQueue("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)
    with pytest.raises(InvalidMessageError, match="the queue is one of"):
        sender.fixed(MESSAGE, other)
    with pytest.raises(InvalidMessageError, match="the queue is one of"):
        sender.by_selector(MESSAGE, lambda *_: other, None)
    assert sender.by_selector(MESSAGE, lambda queues, *_: queues[0], None) == QUEUE
    sender.close(0)


@pytest.mark.parametrize("avoids", [False, True])
def test_a_broker_that_was_silent_is_avoided_for_a_while_where_the_option_says_so(
    avoids: bool,
) -> None:
    kafka = Kafka()
    sender = sender_of(kafka, send_latency_fault_enable=avoids)
    result = sender.send_async(MESSAGE, QUEUE)
    kafka.answer(KafkaError._MSG_TIMED_OUT)
    with pytest.raises(SendError):
        result.result(60)
    wait_until(lambda: not sender._brokers.is_available(1), what="the note")
    chosen = {sender.by_turns(MESSAGE).queue_id for _ in range(4)}
    assert chosen == ({1} if avoids else {0, 1})
    sender.close(0)


def test_a_broker_that_is_away_is_avoided() -> None:
    sender = sender_of(Kafka())
    sender._brokers.connection_failed(
        KafkaError(KafkaError._TRANSPORT, "localhost:9092/1: Connect to ipv4#… failed")
    )
    assert {sender.by_turns(MESSAGE).queue_id for _ in range(4)} == {1}
    sender.close(0)


@pytest.mark.parametrize(
    ("message", "is_by_turns", "sent"),
    [
        (MESSAGE, True, 2),
        (MESSAGE, False, 1),
        (Message("t", b"x", queue_id=0), True, 1),
    ],
)
def test_a_send_by_turns_leaves_a_broker_that_is_away(
    message: Message, is_by_turns: bool, sent: int
) -> None:
    """Its message is not counted twice, whatever comes of the first try."""
    kafka, records = Kafka(), list[Any]()
    produce = kafka.produce

    def note(**record: Any) -> None:
        records.append(record)
        produce(**record)
        if record["partition"] == 1:
            kafka.answer(None)

    kafka.produce = note  # type: ignore[method-assign]
    sender = sender_of(kafka, send_msg_timeout_ms=400)
    sender._brokers.connection_failed(KafkaError(KafkaError._TRANSPORT, "h:1/1: Connect failed"))
    if sent == 2:
        result = sender.send(message, QUEUE, is_by_turns=is_by_turns)
        assert result.message_queue == MessageQueue("t", 1)
    else:
        with pytest.raises(SendError, match="within 400 ms"):
            sender.send(message, QUEUE, is_by_turns=is_by_turns)
    assert [record["partition"] for record in records] == [0, 1][:sent]
    assert len({dict(record["headers"])[UNIQ_KEY] for record in records}) == 1
    assert sender.close(0) == 0
    events = sender._counters.snapshot()
    assert (events[ClientEvent.SENT] + events[ClientEvent.SEND_FAILED]) == 1
