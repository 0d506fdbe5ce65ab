"""How many records a batch may read, by the sizes of those ahead; without Spark and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.streaming import batch_bytes
from checkback.streaming.batch_bytes import POINTS, BatchBytes, events_within

MB = 1_000_000
LARGEST = 4 * MB
Place = tuple[str, int]


class Ahead:
    """Partitions whose records have the size that a function of their offset tells."""

    bytes_max = LARGEST

    def __init__(self, stored: Mapping[Place, int], size: Callable[[Place, int], float]) -> None:
        self.stored, self.size = dict(stored), size
        self.looks = 0
        self.is_silent = False

    def begins(self) -> dict[str, dict[int, int]]:
        return {topic: {at: 0} for topic, at in self.stored}

    def unread(self, ends: Mapping[str, Mapping[int, int]]) -> dict[Place, int]:
        if self.is_silent:
            raise BrokerError("no answer")
        left = {place: end - ends[place[0]][place[1]] for place, end in self.stored.items()}
        return {place: count for place, count in left.items() if count > 0}

    def sizes(self, offsets: Mapping[Place, int]) -> dict[Place, float]:
        self.looks += 1
        return {place: self.size(place, offset) for place, offset in offsets.items()}


def halves(count: int, size: Callable[[int], float]) -> Ahead:
    """A backlog in one half partition, and as many ops of 100 bytes."""
    return Ahead(
        {("half", 0): count, ("op", 0): count},
        lambda place, offset: size(offset) if place[0] == "half" else 100,
    )


class Rig:
    """A bound, and what it puts in force."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, ahead: Ahead, bytes_max: int = 2_000 * MB
    ) -> None:
        self.now_s = 0.0
        self.bound = BatchBytes(ahead, bytes_max, 1_000_000, lambda: self.now_s)  # type: ignore[arg-type]
        self.in_force: list[int] = []
        self.bound.runs(MagicMock())
        monkeypatch.setattr(batch_bytes, "put_in_force", self._put)
        self.failure: Exception | None = None

    def _put(self, _: object, events: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.in_force.append(events)

    def look(self, half: int, op: int = 0, after_s: float = 0.0, *, again: bool = False) -> int:
        self.now_s += after_s
        self.bound.look({"half": {0: half}, "op": {0: op}}, again=again)
        return self.bound.events


def started(last: int | None = None) -> Any:
    plan = MagicMock(ends={"half": {0: last}, "op": {0: last}})
    return MagicMock(last_batch=lambda _: last, planned=lambda _: plan)


def test_small_records_are_limited_by_their_number_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, halves(5_000_000, lambda _: 1_200))

    assert rig.bound.begin(started()) == 1_000_000
    assert rig.look(500_000, 500_000) == 1_000_000
    assert rig.in_force == []


def test_a_million_halves_of_a_kibibyte_are_less_than_the_default() -> None:
    settings = Settings()
    with_headers = 1_024 + 200

    assert settings.batch_events_max * with_headers < settings.batch_bytes_max


def test_the_first_batch_of_a_start_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, halves(100_000, lambda _: MB))

    assert rig.bound.begin(started()) == pytest.approx(4_000, rel=0.01)
    assert rig.bound.begin(started(last=50_000)) == pytest.approx(4_000, rel=0.01)


def test_large_records_lower_the_limit_and_small_ones_raise_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(100_000, lambda offset: MB if offset < 10_000 else 1_000)
    rig = Rig(monkeypatch, ahead)

    assert rig.look(0) == pytest.approx(4_000, rel=0.01)
    assert rig.look(20_000, 20_000) == 1_000_000
    assert rig.in_force == [pytest.approx(4_000, rel=0.01), 1_000_000]


def test_large_records_behind_small_ones_end_the_batch_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = 300_000
    rig = Rig(monkeypatch, halves(1_000_000, lambda offset: 1_000 if offset < small else MB))

    events = rig.look(0)

    large = max(0, events / 2 - small)
    assert small - 1_000_000 / POINTS < events / 2
    assert large * MB < 2_000 * MB


def test_few_records_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = halves(2_000 * MB // LARGEST // 2, lambda _: LARGEST)
    rig = Rig(monkeypatch, ahead)

    assert rig.look(0) == 1_000_000
    assert ahead.looks == 0


def test_a_limit_stays_while_little_is_there_to_tell_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(10_000, lambda _: MB)
    rig = Rig(monkeypatch, ahead)

    lowered = rig.look(0)

    assert rig.look(9_999, 9_999) == lowered


def test_what_was_looked_at_is_looked_at_again_when_twice_as_much_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(10_000, lambda _: 1_000)
    rig = Rig(monkeypatch, ahead)
    rig.look(0)
    ahead.stored = dict.fromkeys(ahead.stored, 19_000)

    rig.look(0, after_s=2.0)
    assert ahead.looks == POINTS
    ahead.stored = dict.fromkeys(ahead.stored, 20_000)
    rig.look(0, after_s=0.5)
    assert ahead.looks == POINTS
    rig.look(0, after_s=1.0)
    assert ahead.looks == 2 * POINTS


def test_what_came_at_once_after_a_quiet_time_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = halves(10, lambda _: MB)
    rig = Rig(monkeypatch, ahead)
    rig.look(10, 10)
    ahead.stored = dict.fromkeys(ahead.stored, 100_000)

    assert rig.look(10, 10) == 1_000_000
    assert rig.look(10, 10, again=True) == pytest.approx(4_000, rel=0.01)


def test_the_next_query_of_a_job_begins_with_the_limit_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch, halves(100_000, lambda _: MB))
    lowered = rig.look(0)

    assert rig.bound.begin(started(last=99_999)) == lowered


def test_brokers_that_do_not_answer_end_neither_a_start_nor_a_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(100_000, lambda _: MB)
    rig = Rig(monkeypatch, ahead)
    ahead.is_silent = True

    assert rig.bound.begin(started()) == 1_000_000
    rig.bound.runs(MagicMock())
    assert rig.look(0) == 1_000_000
    ahead.is_silent = False
    assert rig.look(0, after_s=1.0) == pytest.approx(4_000, rel=0.01)


def test_a_limit_that_spark_did_not_take_is_handed_over_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch, halves(100_000, lambda _: MB))
    rig.failure = Py4JError("no such variable")

    assert rig.look(0) == 1_000_000
    rig.failure = None
    assert rig.look(0, after_s=1.0) == rig.in_force[0] == pytest.approx(4_000, rel=0.01)


def test_one_record_is_read_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, halves(10, lambda _: 3 * MB), bytes_max=MB)

    assert rig.look(0) == 1


@given(
    st.integers(MB, 10_000 * MB),
    st.integers(1, 1_000_000),
    st.lists(st.floats(0, 5 * MB), min_size=1, max_size=POINTS),
)
def test_no_more_records_than_fit_if_each_is_as_large_as_those_around_it(
    bytes_max: int, reach: int, means: list[float]
) -> None:
    events = events_within(bytes_max, reach, means)

    step = reach / len(means)
    read = [max(0.0, min(step, events - number * step)) for number in range(len(means))]
    assert sum(count * size for count, size in zip(read, means, strict=True)) <= bytes_max * 1.001
