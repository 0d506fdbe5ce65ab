"""The tries of a plain send, with Kafka's answers given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from checkback.client.message import MessageQueue
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.results import SendStatus
from checkback.client.sending.plain import (
    BY_KEY,
    PAUSE_BEFORE_TRY_MS,
    Budget,
    PlainRecord,
    PlainSend,
    PlainTry,
)
from checkback.protocol.errors import BrokerError, SendError

RECORD = PlainRecord(msg_id="id", body=b"x", key=None, headers=[])
MOVED = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
BROKEN = KafkaError(KafkaError._TRANSPORT)
UNSAFE = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
FOR_EVER = Budget(started_ms=0, timeout_ms=float("inf"), tries_max=3)


class Stored:
    """What librdkafka reports of a record: the part that is looked at."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 5


class Script:
    """Gives each try the next answer; delayed actions run when the test says so."""

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

    def hand_over(self, record: PlainRecord, attempt: PlainTry) -> None:
        assert (record, attempt.queue.topic) == (RECORD, "t")
        answer = self.answers.pop(0)
        if answer is None:
            return
        error = answer if isinstance(answer, KafkaError) else None
        report: Any = Stored(answer if isinstance(answer, int) else -1)
        attempt(error, report)

    def serve(self) -> None:
        """Do what Kafka's poll and the timers do, until there is nothing left to do."""
        while self.send.done or self.later:
            if self.send.done:
                self.send.done.popleft().wake()
            else:
                self.later.pop(0)[1]()

    def run(self) -> PlainSend:
        self.send.start()
        self.serve()
        return self.send


def test_stored_at_once() -> None:
    script = Script(7)
    result = script.run().result.result(0)
    assert (result.message_queue, result.queue_offset) == (MessageQueue("t", 1), 7)
    assert result.send_status is SendStatus.SEND_OK
    assert script.counters.snapshot()[ClientEvent.SENT] == 1


def test_tried_again_after_a_pause_without_the_last_broker() -> None:
    script = Script(MOVED, BROKEN, 7)
    script.send.start()
    script.send.done.popleft().wake()
    assert script.later[-1][0] == PAUSE_BEFORE_TRY_MS
    script.serve()
    assert script.send.result.result(0).queue_offset == 7
    assert script.brokers == [None, 1, 2]
    assert script.counters.snapshot()[ClientEvent.SEND_RETRIED] == 2


def test_not_more_often_than_the_budget_allows() -> None:
    script = Script(*[MOVED for _ in range(5)])
    with pytest.raises(SendError, match="in 3 tries") as failure:
        script.run().result.result(0)
    assert failure.value.fields["in_doubt"] is True
    assert len(script.answers) == 2
    assert script.counters.snapshot()[ClientEvent.SEND_FAILED] == 1


def test_a_refusal_is_not_tried_again() -> None:
    script = Script(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), 7)
    with pytest.raises(SendError, match="in 1 tries") as failure:
        script.run().result.result(0)
    assert failure.value.fields["in_doubt"] is False


def test_stored_but_not_safely_is_a_status() -> None:
    script = Script(UNSAFE)
    assert script.run().result.result(0).send_status is SendStatus.SLAVE_NOT_AVAILABLE


def test_stored_but_not_safely_is_tried_again_where_it_is_asked_for() -> None:
    script = Script(UNSAFE, 7, try_again_not_store_ok=True)
    assert script.run().result.result(0).send_status is SendStatus.SEND_OK


@pytest.mark.parametrize("answer", [7, UNSAFE])
def test_the_queue_of_a_key_is_told_by_the_report(answer: object) -> None:
    script = Script(answer)
    script.send.choose = lambda _: (MessageQueue("t", BY_KEY), None)
    assert script.run().result.result(0).message_queue == MessageQueue("t", 5)


def test_a_try_whose_broker_is_away_is_left_before_its_time_is_over() -> None:
    script = Script(None, 7, left_early=lambda attempt: attempt.broker == 1)
    assert script.run().result.result(0).queue_offset == 7
    assert script.brokers == [None, 1]


def test_a_try_that_was_left_may_still_be_the_one_that_is_stored() -> None:
    script = Script(None, None, left_early=lambda attempt: attempt.broker == 1)
    tries: list[PlainTry] = []
    hand_over = script.send.hand_over

    def noted(record: PlainRecord, one: PlainTry) -> None:
        tries.append(one)
        hand_over(record, one)

    script.send.hand_over = noted
    script.run()
    late: Any = Stored(3)
    tries[0](None, late)
    script.serve()
    assert script.send.result.result(0).message_queue == MessageQueue("t", 1)


def test_given_up_it_stays_given_up() -> None:
    script = Script(None, budget=Budget(0, 300, 3))
    script.send.start()
    script.send.give_up()
    with pytest.raises(SendError, match="within 300 ms"):
        script.send.result.result(0)
    script.send.give_up()
    assert script.counters.snapshot()[ClientEvent.SEND_FAILED] == 1


def test_a_topic_that_is_not_there_ends_it() -> None:
    script = Script()

    def missing(last_broker: int | None) -> tuple[MessageQueue, int | None]:
        raise BrokerError("no such topic")

    script.send.choose = missing
    with pytest.raises(BrokerError, match="no such topic"):
        script.run().result.result(0)


def test_a_refusal_after_a_try_of_unknown_end_leaves_the_send_in_doubt() -> None:
    full = KafkaError(KafkaError._QUEUE_FULL)
    script = Script(BROKEN, full)
    with pytest.raises(SendError) as failure:
        script.run().result.result(0)
    assert failure.value.fields["in_doubt"] is True


def test_a_topic_that_vanishes_after_a_try_of_unknown_end_leaves_the_send_in_doubt() -> None:
    script = Script(BROKEN)
    choose = script.send.choose

    def once(last_broker: int | None) -> tuple[MessageQueue, int | None]:
        if script.brokers:
            raise BrokerError("The topic t can't be seen.")
        return choose(last_broker)

    script.send.choose = once
    with pytest.raises(SendError, match="can't be seen") as failure:
        script.run().result.result(0)
    assert failure.value.fields["in_doubt"] is True


def test_a_send_that_has_ended_holds_no_body() -> None:
    for script in (Script(7), Script(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))):
        script.run()
        assert script.send.record.body == b""
    left = Script(None, 7, left_early=lambda attempt: attempt.broker == 1)
    assert left.run().result.result(0).msg_id == "id"
