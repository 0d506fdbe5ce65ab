"""When the next batch may come: at once, after the interval, or when there is something to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.decided import (
    OpKind,
    RelayMark,
    note_headers,
    note_value,
    passed_headers,
)
from checkback.protocol.properties import Headers
from checkback.streaming.batch.idle_wait import Idling, RecordWatch

MARK = RelayMark(9, 3, 1_000, 5, 2)
ENDS = {"half": {0: 5}}


@dataclass
class FakeWatch(RecordWatch):
    """Sees a record at the look with this number; each look takes no time."""

    record_at: int = 10**9
    looks: list[float] = field(default_factory=list)
    watched: list[Offsets] = field(default_factory=list)
    on_look: Callable[[], None] = lambda: None

    def begin(self, ends: Offsets) -> None:
        self.watched.append(ends)

    def sees_record(self, wait_s: float) -> bool:
        self.looks.append(wait_s)
        self.on_look()
        return len(self.looks) >= self.record_at

    def end(self) -> None:
        self.watched.append({})

    def close(self) -> None:
        self.watched.append({"closed": {}})


def idling(watch: FakeWatch, wake_ms: int | None = None, now_ms: int = 0) -> Idling:
    return Idling(watch, Event(), lambda: wake_ms, 0.0, now_ms=lambda: now_ms)


def test_an_idle_pipeline_sleeps_until_a_record_comes() -> None:
    watch = FakeWatch("w", {}, record_at=3)

    idling(watch).hold(7, ENDS, did_nothing=True)

    assert len(watch.looks) == 3
    assert watch.watched == [ENDS, {}]


def test_it_wakes_when_the_first_page_is_due() -> None:
    clock = {"ms": 1_000}
    watch = FakeWatch("w", {})
    watch.on_look = lambda: clock.update(ms=clock["ms"] + int(watch.looks[-1] * 1_000))
    one = Idling(watch, Event(), lambda: 1_300, 0.0, now_ms=lambda: clock["ms"])

    one.hold(7, ENDS, did_nothing=True)

    # Spark calls a page in a batch whose time is later than the page's.
    assert clock["ms"] == 1_301


@pytest.mark.parametrize("wake_ms", [0, 999])
def test_it_does_not_sleep_while_a_page_is_due(wake_ms: int) -> None:
    watch = FakeWatch("w", {})

    idling(watch, wake_ms, now_ms=1_000).hold(7, ENDS, did_nothing=True)

    assert watch.looks == []


def test_brokers_that_refuse_the_watch_do_not_end_the_query() -> None:
    class Refused(FakeWatch):
        def begin(self, ends: Offsets) -> None:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG), ends)

    watch = Refused("w", {})

    idling(watch).hold(7, ENDS, did_nothing=True)

    assert watch.looks == []


def test_a_stop_ends_its_sleep() -> None:
    watch = FakeWatch("w", {})
    one = idling(watch)
    watch.on_look = one.stopping.set

    one.hold(7, ENDS, did_nothing=True)

    assert len(watch.looks) == 1
    assert watch.watched[-1] == {"closed": {}}


class Waits(Event):
    """Takes waits down in a clock that goes on by them."""

    def __init__(self) -> None:
        super().__init__()
        self.steady_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.steady_s += timeout or 0.0
        return self.is_set()


def paced(interval_s: float, wake_ms: Callable[[], int], waits: Waits) -> Idling:
    watch, wall = FakeWatch("w", {}, record_at=1), lambda: int(waits.steady_s * 1_000)
    return Idling(watch, waits, wake_ms, interval_s, wall, lambda: waits.steady_s)


def test_batches_with_records_follow_each_other_whatever_was_due_before() -> None:
    """Small ones were spaced out; due pages ended each pause, and its length was owed on."""
    waits = Waits()
    due = {"ms": 0}
    idling = paced(0.0, lambda: due["ms"], waits)
    for _ in range(500):  # minutes of checks beside a few transactions a second
        idling.hold(7, ENDS, did_nothing=False)
    due["ms"] = 3_600_000

    idling.hold(7, ENDS, did_nothing=False)

    assert waits.steady_s == 0.0


def test_an_interval_is_kept_by_a_clock_that_can_not_be_set() -> None:
    """Spark kept it by the wall clock, which made no batch for an hour when set back by one."""
    waits = Waits()
    wall = {"ms": 3_600_000}
    idling = Idling(
        FakeWatch("w", {}), waits, lambda: None, 2.0, lambda: wall["ms"], lambda: waits.steady_s
    )
    idling.hold(7, ENDS, did_nothing=False)
    assert waits.steady_s == 2.0
    wall["ms"] = 0
    waits.steady_s += 0.5  # the next batch works

    idling.hold(7, ENDS, did_nothing=False)

    assert waits.steady_s == 4.0


def test_a_batch_that_took_longer_than_the_interval_is_let_go_at_once() -> None:
    waits = Waits()
    idling = paced(2.0, lambda: 0, waits)
    waits.steady_s = 7.0

    idling.hold(7, ENDS, did_nothing=False)

    assert waits.steady_s == 7.0


@pytest.mark.parametrize(
    ("topic", "headers", "wakes"),
    [
        ("decided", note_headers(MARK), False),
        ("decided", passed_headers([], OpKind.PASSED, 7), True),
        ("half", note_headers(MARK), True),
    ],
)
def test_what_relays_say_of_a_partition_does_not_wake_a_sleeper(
    topic: str, headers: Headers, *, wakes: bool
) -> None:
    record = MagicMock(
        error=lambda: None, topic=lambda: topic, headers=lambda: headers,
        value=lambda: note_value(MARK),
    )  # fmt: skip
    watch = RecordWatch("w", {}, "decided")
    watch._consumer = MagicMock(poll=lambda _: record)

    assert watch.sees_record(0.1) is wakes
