"""Which check requests are answered, and with which producer."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from tests.unit.client.producer_playing import Committing, Producer, half_producer

from checkback.client.checks.answers import CheckAnswers
from checkback.client.kafka.clock import BrokerClock
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.sending.half import InDoubtIds
from checkback.client.sending.op_producer import OpProducer

BROKERS_TIME_MS = 1_700_000_000_000
FATAL = KafkaError(KafkaError._FATAL)


class Stage:
    """The parts of a producer that answer checks; it opens one Kafka producer after the other."""

    def __init__(self, *kafkas: Producer) -> None:
        opened: Any = iter(kafkas)
        shared: dict[str, Any] = {
            "in_doubt": InDoubtIds(), "counters": Counters(), "clock": BrokerClock(),
        }  # fmt: skip
        self.counters = shared["counters"]
        halves = half_producer(lambda _: next(opened), **shared)
        plain: Any = lambda *_: Producer()  # noqa: E731
        ops = OpProducer(plain, lambda: halves.polled, "op", self.counters, renew=halves.renew)
        self.answers = CheckAnswers(
            listener=Committing(), producer_group="g", ops=ops, try_timeout_s=1,
            stopping=threading.Event(), **shared,
        )  # fmt: skip


def request() -> Any:
    return SimpleNamespace(
        transaction_id="u", half_queue=0, queue_offset=7,
        requested_at_ms=BROKERS_TIME_MS, check_interval_ms=60_000,
    )  # fmt: skip


@pytest.mark.parametrize("step_s", [3_600, -3_600])
def test_a_clock_that_is_set_makes_no_request_old(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Producer(time=(TIMESTAMP_LOG_APPEND_TIME, BROKERS_TIME_MS))
    stage = Stage(kafka)
    assert stage.answers.answer(request())
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + step_s)

    assert stage.answers.answer(request())

    assert stage.counters.snapshot()[ClientEvent.CHECK_SKIPPED] == 0
    assert len(kafka.sent) == 2


@pytest.mark.parametrize(
    "broken",
    [pytest.param({"refuses": KafkaException(FATAL)}, id="takes nothing"),
     pytest.param({"error": FATAL}, id="fails what it takes")],
)  # fmt: skip
def test_an_answer_goes_through_another_producer_where_librdkafka_gave_one_up(
    broken: dict[str, Any],
) -> None:
    stage = Stage(Producer(**broken), kafka := Producer())

    assert stage.answers.answer(request())

    assert len(kafka.sent) == 1
