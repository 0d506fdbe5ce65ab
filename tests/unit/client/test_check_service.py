"""The thread that reads check requests, over a consumer that does what a test says."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

from confluent_kafka import TopicPartition
from tests.deciding import Unnameable, message

from checkback.client.checks.service import CheckService
from checkback.client.message import MessageExt
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerOptions

HEADERS = [
    ("UNIQ_KEY", b"u"),
    ("REAL_TOPIC", b"t"),
    ("TRAN_HALF_QUEUE_ID", b"0"),
    ("TRAN_PREPARED_QUEUE_OFFSET", b"7"),
    ("TRANSACTION_CHECK_TIMES", b"1"),
    ("TRANSACTION_CHECK_INTERVAL_MS", b"200"),
]


def record(offset: int, headers: Any = HEADERS) -> Any:
    """A check request."""
    return message(partition=0, offset=offset, value=b"x", headers=headers, timestamp=(1, 0))


class Checks:
    """A consumer of a check topic; keeps what is paused, as librdkafka does over a rebalance."""

    def __init__(self, *records: Any) -> None:
        self.records = deque(records)
        self.before_consume: deque[Any] = deque()
        self.paused = False
        self.committed: list[int] = []
        self.given: Any = None

    def subscribe(self, _: object, *, on_assign: Any, **_others: Any) -> None:
        self.given = on_assign

    def consume(self, number: int, _: float) -> list[Any]:
        threading.Event().wait(0.001)
        if self.before_consume:
            self.before_consume.popleft()()
        if self.paused:
            return []
        return [self.records.popleft() for _ in range(min(number, len(self.records)))]

    def assignment(self) -> list[TopicPartition]:
        return []

    def pause(self, _: object) -> None:
        self.paused = True

    def resume(self, _: object) -> None:
        self.paused = False

    def commit(self, *, offsets: Any, **_: Any) -> None:
        self.committed.append(offsets[0].offset)

    def close(self) -> None:
        pass


class Stage:
    """A check service whose listener is the function of a test."""

    def __init__(self, consumer: Checks, answer: Any, **options: Any) -> None:
        self.counters = Counters()
        self.stopping = threading.Event()
        answers: Any = SimpleNamespace(producer_group="g", stopping=self.stopping, answer=answer)
        opened: Any = consumer
        self.service = CheckService(
            lambda _: opened, "check", answers, self.counters, ProducerOptions(**options)
        )
        self.service.start()


def test_a_request_that_can_not_be_read_holds_up_no_other() -> None:
    wide = [*HEADERS, ("REAL_QID", "²".encode())]
    long = [*HEADERS, ("REAL_QID", b"9" * 5_000)]
    answered: deque[MessageExt] = deque()
    done = threading.Event()

    def answer(request: MessageExt) -> bool:
        answered.append(request)
        if len(answered) == 3:
            done.set()
        return True

    records = [record(4, wide), record(5, long), Unnameable(record(6)), record(7)]
    stage = Stage(Checks(*records), answer)
    assert done.wait(60)
    assert [request.queue_id for request in answered] == [None, None, None]
    assert stage.counters.snapshot()[ClientEvent.CHECK_UNREADABLE] == 1
    stage.service.close(60)


def test_what_runs_at_the_end_is_waited_for_and_counted() -> None:
    """Also after a request whose listener ended its thread."""
    gate, taken = threading.Event(), threading.Event()
    answered: deque[MessageExt] = deque()

    def answer(request: MessageExt) -> bool:
        if not answered:
            answered.append(request)
            raise SystemExit
        taken.set()
        return gate.wait(60)

    stage = Stage(Checks(record(1), record(2)), answer)
    assert taken.wait(60)
    assert stage.service.close(0) == 1
    gate.set()
    assert stage.service.close(60) == 0


def test_what_was_paused_before_a_rebalance_is_read_after_it() -> None:
    gate, taken, done = threading.Event(), threading.Event(), threading.Event()

    def answer(request: MessageExt) -> bool:
        taken.set()
        gate.wait(60)
        if request.queue_offset == 9:
            done.set()
        return True

    quiet = [header for header in HEADERS if not header[0].endswith("INTERVAL_MS")]
    last = [("TRAN_PREPARED_QUEUE_OFFSET", b"9") if "OFFSET" in name else (name, value)
            for name, value in quiet]  # fmt: skip
    checks = Checks(record(1, quiet), record(2, quiet), record(3, last))
    stage = Stage(checks, answer, check_request_hold_max=1)
    assert taken.wait(60)
    while not checks.paused:
        threading.Event().wait(0.001)

    def rebalance() -> None:  # a cooperative one: what is kept stays paused
        checks.given(None, [])
        gate.set()

    checks.before_consume.append(rebalance)
    assert done.wait(60)
    stage.service.close(60)


def test_a_listener_may_shut_its_producer_down() -> None:
    left: deque[int] = deque()
    done = threading.Event()

    def answer(_: MessageExt) -> bool:
        left.append(stage.service.close(1))
        done.set()
        return True

    checks = Checks()
    stage = Stage(checks, answer)
    checks.records.append(record(1))
    assert done.wait(60)
    assert list(left) == [1]
