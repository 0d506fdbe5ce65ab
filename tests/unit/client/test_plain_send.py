"""The tries of a plain send, with Kafka's answers given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kafka import errors
from kafka.future import Future

from checkback.client.budget import Budget
from checkback.client.counters import Counters, Event
from checkback.client.message import MessageQueue
from checkback.client.plain_send import PAUSE_BEFORE_TRY_MS, PlainRecord, PlainSend
from checkback.client.results import SendStatus
from checkback.protocol.errors import BrokerError, SendError

RECORD = PlainRecord(msg_id="id", body=b"x", key=None, headers=[])
FOR_EVER = Budget(started_ms=0, timeout_ms=float("inf"), tries_max=3)


class Stored(NamedTuple):
    offset: int


class Script:
    """Gives each try the next answer; what is to be done later is done when the test says."""

    def __init__(self, *answers: Any, **options: Any) -> None:
        self.answers = list(answers)
        self.brokers: list[int | None] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.counters = Counters()
        self.send = PlainSend(
            record=RECORD,
            choose=self.choose,
            hand_over=self.hand_over,
            after=lambda delay_ms, action: self.later.append((delay_ms, action)),
            budget=options.pop("budget", FOR_EVER),
            counters=self.counters,
            **options,
        )

    def choose(self, last_broker: int | None) -> tuple[MessageQueue, int | None]:
        self.brokers.append(last_broker)
        number = len(self.brokers)
        return MessageQueue("t", number), number

    def hand_over(self, record: PlainRecord, queue: MessageQueue) -> Any:
        assert (record, queue.topic) == (RECORD, "t")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            return Future().failure(answer)
        return Future().success(Stored(answer)) if answer is not None else Future()

    def run(self) -> PlainSend:
        self.send.start()
        while self.later:
            self.later.pop(0)[1]()
        return self.send


def test_stored_at_once() -> None:
    script = Script(7)
    result = script.run().result.result(0)
    assert (result.message_queue, result.queue_offset) == (MessageQueue("t", 1), 7)
    assert result.send_status is SendStatus.SEND_OK
    assert script.counters.snapshot()[Event.SENT] == 1


def test_tried_again_after_a_pause_without_the_last_broker() -> None:
    script = Script(errors.NotLeaderForPartitionError(), errors.KafkaConnectionError(), 7)
    script.send.start()
    assert [delay_ms for delay_ms, _ in script.later] == [PAUSE_BEFORE_TRY_MS]
    while script.later:
        script.later.pop(0)[1]()
    assert script.send.result.result(0).queue_offset == 7
    assert script.brokers == [None, 1, 2]
    assert script.counters.snapshot()[Event.SEND_RETRIED] == 2


def test_not_more_often_than_the_budget_allows() -> None:
    script = Script(*[errors.NotLeaderForPartitionError() for _ in range(5)])
    with pytest.raises(SendError, match="in 3 tries") as failure:
        script.run().result.result(0)
    assert failure.value.fields["in_doubt"] is True
    assert len(script.answers) == 2
    assert script.counters.snapshot()[Event.SEND_FAILED] == 1


def test_a_refusal_is_not_tried_again() -> None:
    script = Script(errors.TopicAuthorizationFailedError(), 7)
    with pytest.raises(SendError, match="in 1 tries") as failure:
        script.run().result.result(0)
    assert failure.value.fields["in_doubt"] is False


def test_stored_but_not_safely_is_a_status() -> None:
    script = Script(errors.NotEnoughReplicasAfterAppendError())
    assert script.run().result.result(0).send_status is SendStatus.SLAVE_NOT_AVAILABLE


def test_stored_but_not_safely_is_tried_again_where_it_is_asked_for() -> None:
    script = Script(errors.NotEnoughReplicasAfterAppendError(), 7, try_again_not_store_ok=True)
    assert script.run().result.result(0).send_status is SendStatus.SEND_OK


def test_given_up_it_stays_given_up() -> None:
    script = Script(None, budget=Budget(0, 300, 3))
    script.send.start()
    script.send.give_up()
    with pytest.raises(SendError, match="within 300 ms"):
        script.send.result.result(0)
    script.send.give_up()
    assert script.counters.snapshot()[Event.SEND_FAILED] == 1


def test_a_topic_that_is_not_there_ends_it() -> None:
    script = Script()

    def missing(last_broker: int | None) -> tuple[MessageQueue, int | None]:
        raise BrokerError("no such topic")

    script.send.choose = missing
    with pytest.raises(BrokerError, match="no such topic"):
        script.run().result.result(0)
