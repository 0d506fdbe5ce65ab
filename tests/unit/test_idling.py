"""When the next batch may come: at once, after a pause, or when there is something to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.checkpoints.logs import Offsets
from checkback.streaming.idling import (
    BATCHES_AT_ONCE,
    BATCHES_PER_S,
    SMALL_BATCH,
    BatchAllowance,
    FinishedBatch,
    Idling,
    RecordWatch,
)

NOTHING = FinishedBatch(7, {"half": {0: 5}}, records=0, did_nothing=True)


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
    return Idling(watch, Event(), lambda: wake_ms, spaces_out=True, now_ms=lambda: now_ms)


def test_an_idle_pipeline_sleeps_until_a_record_comes() -> None:
    watch = FakeWatch("w", {}, record_at=3)

    idling(watch).hold(NOTHING)

    assert len(watch.looks) == 3
    assert watch.watched == [NOTHING.ends, {}]


def test_it_wakes_when_the_first_page_is_due() -> None:
    clock = {"ms": 1_000}
    watch = FakeWatch("w", {})
    watch.on_look = lambda: clock.update(ms=clock["ms"] + int(watch.looks[-1] * 1_000))
    one = Idling(watch, Event(), lambda: 1_300, spaces_out=True, now_ms=lambda: clock["ms"])

    one.hold(NOTHING)

    # Spark calls a page in a batch whose time is later than the page's.
    assert clock["ms"] == 1_301


@pytest.mark.parametrize("wake_ms", [0, 999])
def test_it_does_not_sleep_while_a_page_is_due(wake_ms: int) -> None:
    watch = FakeWatch("w", {})

    idling(watch, wake_ms, now_ms=1_000).hold(NOTHING)

    assert watch.looks == []


def test_it_does_not_sleep_before_it_knows_what_is_due() -> None:
    def unknown() -> int:
        raise LookupError

    watch = FakeWatch("w", {})

    Idling(watch, Event(), unknown, spaces_out=True, now_ms=lambda: 0).hold(NOTHING)

    assert watch.looks == []


def test_brokers_that_refuse_the_watch_do_not_end_the_query() -> None:
    class Refused(FakeWatch):
        def begin(self, ends: Offsets) -> None:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG), ends)

    watch = Refused("w", {})

    idling(watch).hold(NOTHING)

    assert watch.looks == []


def test_a_stop_ends_its_sleep() -> None:
    watch = FakeWatch("w", {})
    one = idling(watch)
    watch.on_look = one.stopping.set

    one.hold(NOTHING)

    assert len(watch.looks) == 1
    assert watch.watched[-1] == {"closed": {}}


def test_how_long_the_last_two_batches_were_held_is_known() -> None:
    one = idling(FakeWatch("w", {}, record_at=1))

    one.hold(NOTHING)

    assert one.held_ms_of(7) >= 0
    assert one.held_ms_of(3) == 0


def test_a_few_small_batches_follow_each_other_then_they_are_spaced_out() -> None:
    clock = {"s": 0.0}
    allowance = BatchAllowance(lambda: clock["s"])

    pauses = [allowance.pause_s() for _ in range(int(BATCHES_AT_ONCE) + 2)]

    assert pauses[:-2] == [0.0] * int(BATCHES_AT_ONCE)
    assert pauses[-2:] == [1 / BATCHES_PER_S, 2 / BATCHES_PER_S]
    clock["s"] += 60
    assert allowance.pause_s() == 0.0


@pytest.mark.parametrize("records", [0, SMALL_BATCH])
def test_neither_large_batches_nor_those_that_only_wake_pages_wait(records: int) -> None:
    one = idling(FakeWatch("w", {}))
    one.allowance = BatchAllowance(lambda: 0.0)

    for _ in range(100):
        one.hold(FinishedBatch(7, {}, records, did_nothing=False))

    assert one.allowance.pause_s() == 0.0


def test_a_pause_ends_when_the_job_is_to_stop() -> None:
    one = idling(FakeWatch("w", {}))
    one.allowance = BatchAllowance(lambda: 0.0)

    def hold_often() -> None:
        for _ in range(50):
            one.hold(FinishedBatch(7, {}, 1, did_nothing=False))

    held = Thread(target=hold_often)
    held.start()
    one.stopping.set()
    held.join(10)

    assert not held.is_alive()
