"""Which check requests are answered, and with which producer."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from tests.unit.client.producer_playing import QuietProducer

from checkback.client.checks.answers import CheckAnswers
from checkback.client.kafka.clock import BrokerClock
from checkback.client.kafka.topics import TopicLeaders
from checkback.client.listener import LocalTransactionState
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.sending.half import InDoubtIds
from checkback.client.sending.half_producer import HalfProducer
from checkback.client.sending.op_producer import OpProducer

BROKERS_TIME_MS = 1_700_000_000_000
FATAL = KafkaError(KafkaError._FATAL)


class Stored:
    """The report of a record that was stored at the brokers' time."""

    def topic(self) -> str:
        return "op"

    def partition(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_LOG_APPEND_TIME, BROKERS_TIME_MS

    def latency(self) -> None:
        return None


class Kafka(QuietProducer):
    """A producer that stores what it takes; one that is broken takes nothing, or fails it."""

    def __init__(self, broken: str = "") -> None:
        super().__init__()
        self.broken = broken
        self.due: list[Any] = []

    def produce(self, **record: Any) -> None:
        if self.broken == "takes nothing":
            raise KafkaException(FATAL)
        super().produce(**record)
        if "on_delivery" in record:
            self.due.append(record["on_delivery"])

    def poll(self, timeout_s: float) -> None:
        super().poll(timeout_s)
        while self.due:
            self.due.pop()(FATAL if self.broken else None, Stored())


class Stage:
    """The parts of a producer that answer checks; it opens one Kafka producer after the other."""

    def __init__(self, *kafkas: Kafka) -> None:
        opened: Any = iter(kafkas)
        facts: Any = SimpleNamespace(
            topic=lambda _: TopicLeaders({0: 1}, (0,), float("inf")), refresh=lambda _: None
        )
        clock, in_doubt, counters = BrokerClock(), InDoubtIds(), Counters()
        self.counters = counters
        halves = HalfProducer(
            lambda _: next(opened), "half", facts, in_doubt, counters, clock,
            budget_ms=5_000, tries_max=1, avoid_faults=False,
        )  # fmt: skip
        plain: Any = lambda *_: Kafka()  # noqa: E731
        ops = OpProducer(plain, lambda: halves.polled, "op", "g", counters, renew=halves.renew)
        listener: Any = SimpleNamespace(
            check_local_transaction=lambda _: LocalTransactionState.COMMIT_MESSAGE
        )
        self.answers = CheckAnswers(
            listener=listener,
            producer_group="g",
            in_doubt=in_doubt,
            ops=ops,
            counters=counters,
            clock=clock,
            try_timeout_s=1,
            stopping=threading.Event(),
        )


def request() -> Any:
    return SimpleNamespace(
        transaction_id="u", half_queue=0, queue_offset=7,
        requested_at_ms=BROKERS_TIME_MS, check_interval_ms=60_000,
    )  # fmt: skip


@pytest.mark.parametrize("step_s", [3_600, -3_600])
def test_a_clock_that_is_set_makes_no_request_old(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Kafka()
    stage = Stage(kafka)
    assert stage.answers.answer(request())
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + step_s)

    assert stage.answers.answer(request())

    assert stage.counters.snapshot()[ClientEvent.CHECK_SKIPPED] == 0
    assert len(kafka.sent) == 2


@pytest.mark.parametrize("broken", ["takes nothing", "fails what it takes"])
def test_an_answer_goes_through_another_producer_where_librdkafka_gave_one_up(broken: str) -> None:
    stage = Stage(Kafka(broken), kafka := Kafka())

    assert stage.answers.answer(request())

    assert len(kafka.sent) == 1


def test_the_line_about_a_failed_check_carries_its_transaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing: Any = SimpleNamespace(check_local_transaction=lambda _: 1 / 0)
    answers = replace(Stage(Kafka()).answers, listener=failing)

    assert answers.answer(request())

    assert [getattr(one, "facts", None) for one in caplog.records] == [{"transaction_id": "u"}]
