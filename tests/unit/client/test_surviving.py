"""No thread of the client ends because an application's callback raises what it should not."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.unit.client.producer_playing import QuietProducer

from checkback.client.checks.service import CheckService
from checkback.client.kafka.delivery_reports import PolledProducer, ThreadReport
from checkback.client.kafka.status_watch import StatusWatch
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerOptions

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


class Poll(QuietProducer):
    """A producer whose polls do what they are given, one after the other."""

    def __init__(self, *polls: Any) -> None:
        super().__init__()
        self.polls = deque(polls)

    def poll(self, timeout_s: float) -> None:
        if self.polls:
            self.polls.popleft()()
        else:
            super().poll(timeout_s)


def leave() -> None:
    raise SystemExit


def is_reported(polled: PolledProducer, *before: Any) -> bool:
    """Tell whether a report that comes in the poll after these calls ends its wait."""
    report = ThreadReport(polled.done)

    def poll() -> None:
        polled.done.extend(before)
        report(None, SimpleNamespace())  # type: ignore[arg-type]

    polled.producer.polls.append(poll)
    report.wait(60)
    was_taken = not polled.done
    polled.close(0)
    return report.message is not None and was_taken


def test_a_callback_that_ends_its_thread_does_not_end_the_polling() -> None:
    assert is_reported(PolledProducer(lambda: Poll(leave), "test"))


def test_a_report_whose_waiter_can_not_be_woken_costs_no_other() -> None:
    broken: Any = SimpleNamespace(error=None, message=None, wake=leave)
    assert is_reported(PolledProducer(Poll, "test"), broken)


def test_waiters_are_woken_where_the_sample_fails() -> None:
    def sample(_: object) -> None:
        raise RuntimeError("can't start new thread")

    assert is_reported(PolledProducer(Poll, "test", sample))


def test_checks_are_read_again_after_whatever_was_raised() -> None:
    opened: deque[int] = deque()
    again, stopping = threading.Event(), threading.Event()

    def open_consumer(_: str) -> Any:
        opened.append(1)
        if len(opened) == 1:
            return SimpleNamespace(subscribe=lambda *_, **__: leave(), close=lambda: None)
        again.set()
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    answers: Any = SimpleNamespace(producer_group="g", stopping=stopping)
    service = CheckService(open_consumer, "check", answers, Counters(), ProducerOptions())
    service.start()
    assert again.wait(60)
    service.close(60)


def test_a_status_that_can_not_be_taken_is_followed_by_others() -> None:
    seen = threading.Event()
    polls = deque([leave, seen.set])
    consumer: Any = SimpleNamespace(
        get_watermark_offsets=lambda *_: (0, 0),
        assign=lambda _: None,
        poll=lambda _: polls.popleft()() if polls else threading.Event().wait(0.001) and None,
        close=lambda: None,
    )
    watch = StatusWatch(lambda: consumer, "status")
    watch.start(1)
    assert seen.wait(60)
    watch.close(60)


@pytest.mark.parametrize("raised", [SystemExit(), RuntimeError("x")])
def test_a_metrics_callback_that_fails_costs_no_step_after_it(raised: BaseException) -> None:
    def on_event(_: ClientEvent) -> None:
        raise raised

    counters = Counters(on_event)
    counters.add(ClientEvent.SENT)
    assert counters.snapshot()[ClientEvent.SENT] == 1
