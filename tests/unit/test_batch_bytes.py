"""How many records a batch may read, by the sizes of those ahead; without Spark and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from checkback.checkpoints.logs import PlannedBatch
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.streaming import batch_bytes
from checkback.streaming.batch_bytes import (
    PARTITIONS,
    POINTS,
    BatchBytes,
    events_within,
    put_in_force,
)
from checkback.streaming.records_ahead import size_of

MB = 1_000_000
LARGEST = 4 * MB
FOR_SURE = 500
"""How many of the largest records fit into a batch."""
Place = tuple[str, int]


class Ahead:
    """Partitions whose records have the size that a function of their offset tells."""

    largest = LARGEST

    def __init__(self, stored: Mapping[Place, int], size: Callable[[Place, int], float]) -> None:
        self.stored, self.size = dict(stored), size
        self.looked_at: list[list[Place]] = []
        self.is_silent = False

    def beginnings(self, topics: Mapping[str, int]) -> dict[str, dict[int, int]]:
        if self.is_silent:
            raise BrokerError("no answer")
        return {topic: dict.fromkeys(range(count), 0) for topic, count in topics.items()}

    def unread(self, ends: Mapping[str, Mapping[int, int]]) -> dict[Place, int]:
        if self.is_silent:
            raise BrokerError("no answer")
        left = {place: end - ends[place[0]][place[1]] for place, end in self.stored.items()}
        return {place: count for place, count in left.items() if count > 0}

    def sizes(self, points: Iterable[Mapping[Place, int]]) -> list[dict[Place, float]]:
        found = [{place: self.size(place, at) for place, at in one.items()} for one in points]
        self.looked_at.extend(map(list, found))
        return found


def halves(count: int, size: Callable[[int], float]) -> Ahead:
    """A backlog in one half partition, and as many ops of 100 bytes."""
    return Ahead(
        {("half", 0): count, ("op", 0): count},
        lambda place, offset: size(offset) if place[0] == "half" else 100,
    )


def planned(ends: Mapping[str, Mapping[int, int]] | None) -> Any:
    """A checkpoint whose last batch ends there, or a new one."""
    plan = PlannedBatch(0, ends or {}, {})
    return SimpleNamespace(last_batch=lambda _: None if ends is None else 7, planned=lambda _: plan)


class Rig:
    """A bound, and what it puts in force."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, ahead: Ahead, bytes_max: int = FOR_SURE * LARGEST
    ) -> None:
        self.now_s = 100.0
        clock: Any = lambda: self.now_s  # noqa: E731
        self.bound = BatchBytes(MagicMock(), ahead, bytes_max, 1_000_000, True, clock)  # type: ignore[arg-type]
        self.in_force: list[int] = []
        self.failure: Exception | None = None
        monkeypatch.setattr(batch_bytes, "put_in_force", self._put)

    def _put(self, _: object, events: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.in_force.append(events)

    def look(self, half: int, op: int = 0) -> int:
        self.bound.look({"half": {0: half}, "op": {0: op}})
        return self.bound.events


def test_the_first_batch_of_a_job_reads_what_fits_for_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Rig(monkeypatch, halves(0, lambda _: 1)).bound.events == FOR_SURE
    assert Rig(monkeypatch, halves(0, lambda _: 1), bytes_max=MB).bound.events == 1


def test_the_first_batch_of_a_job_reads_what_fits_by_a_look_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = Rig(monkeypatch, halves(5_000_000, lambda _: 1_200)).bound
    small.look_at_start(planned(None), {"half": 1, "op": 1})
    assert small.events == 1_000_000

    large = Rig(
        monkeypatch, halves(5_000_000, lambda offset: MB if offset > 9_000 else 1_000)
    ).bound
    large.look_at_start(planned({"half": {0: 10_000}, "op": {0: 0}}), {})
    assert large.events == pytest.approx(4_000, rel=0.01)


def test_brokers_that_tell_no_sizes_at_a_start_leave_its_first_batch_what_fits_for_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(100_000, lambda _: 1_000)
    rig, ahead.is_silent = Rig(monkeypatch, ahead), True

    rig.bound.look_at_start(planned(None), {"half": 1})

    assert rig.bound.events == FOR_SURE


def test_small_records_are_limited_by_their_number_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, halves(5_000_000, lambda _: 1_200))

    assert rig.look(0) == 1_000_000
    assert rig.look(500_000, 500_000) == 1_000_000
    assert rig.in_force == [1_000_000]


def test_without_a_bound_batches_read_as_many_records_as_they_may() -> None:
    spark, admin = MagicMock(), MagicMock()
    bound = BatchBytes.of(spark, Settings(batch_bytes_max=0), {}, admin)
    bound.look_at_start(planned(None), {"half": 1})
    bound.look({"half": {0: 0}})

    assert bound.events == Settings().batch_events_max
    assert (spark.mock_calls, admin.mock_calls) == ([], [])


def test_large_records_lower_the_limit_and_small_ones_raise_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(100_000, lambda offset: MB if offset < 10_000 else 1_000)
    rig = Rig(monkeypatch, ahead)

    assert rig.look(0) == pytest.approx(4_000, rel=0.01)
    assert rig.look(20_000, 20_000) == 1_000_000
    assert rig.in_force == [pytest.approx(4_000, rel=0.01), 1_000_000]


def test_a_backlog_is_read_in_few_batches_none_of_them_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small, then large, then small halves, each with an op: a stretch that no look can miss."""
    large = range(400_000, 400_000 + 500_000 // POINTS + 1)
    stored, bytes_max = 1_000_000, FOR_SURE * LARGEST
    rig = Rig(monkeypatch, halves(stored, lambda offset: MB if offset in large else 1_000))

    read, sizes = 0, []
    while read < stored:
        end = min(stored, read + max(1, rig.look(read, read) // 2))
        sizes.append(sum(MB if at in large else 1_000 for at in range(read, end)))
        read = end

    assert max(sizes) < 1.1 * bytes_max
    assert len(sizes) < 3 * sum(sizes) / bytes_max


def test_what_fits_for_sure_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = halves(FOR_SURE // 2, lambda _: LARGEST)
    rig = Rig(monkeypatch, ahead)

    assert rig.look(0) == 1_000_000
    assert ahead.looked_at == []


def test_the_fewer_records_there_are_the_fewer_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(3 * FOR_SURE // 2, lambda _: 1_000)

    assert Rig(monkeypatch, ahead).look(0) == 1_000_000
    assert len(ahead.looked_at) == 3


def test_of_many_partitions_some_are_looked_at_for_each_point_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = {(topic, number): 10_000 for topic in ("half", "op") for number in range(16)}
    ahead = Ahead(stored, lambda place, _: MB if place[0] == "half" else 100)
    rig = Rig(monkeypatch, ahead)

    rig.bound.look({topic: dict.fromkeys(range(16), 0) for topic in ("half", "op")})

    assert {len(places) for places in ahead.looked_at} == {PARTITIONS}
    assert {place for places in ahead.looked_at for place in places} == set(stored)
    assert rig.bound.events == pytest.approx(4_000, rel=0.01)


def test_much_that_comes_between_two_batches_is_looked_at_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(10, lambda _: MB)
    rig = Rig(monkeypatch, ahead)
    rig.bound.look_again()
    assert rig.in_force == []
    assert rig.look(10, 10) == 1_000_000
    ahead.stored = dict.fromkeys(ahead.stored, 100_000)

    rig.now_s += 0.9
    rig.bound.look_again()
    assert rig.bound.events == 1_000_000
    rig.now_s += 0.2
    rig.bound.look_again()
    assert rig.bound.events == pytest.approx(4_000, rel=0.01)


def test_while_brokers_tell_no_sizes_each_batch_may_read_twice_as_many_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = halves(100_000, lambda _: MB)
    rig = Rig(monkeypatch, ahead)
    ahead.is_silent = True

    assert [rig.look(0), rig.look(0)] == [2 * FOR_SURE, 4 * FOR_SURE]
    assert [rig.look(0) for _ in range(12)][-1] == 1_000_000
    ahead.is_silent = False
    assert rig.look(0) == pytest.approx(4_000, rel=0.01)


def test_a_limit_that_spark_did_not_take_is_handed_over_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch, halves(100_000, lambda _: MB))
    rig.failure = Py4JError("no such variable")

    assert rig.look(0) == FOR_SURE
    rig.failure = None
    assert rig.look(0) == rig.in_force[0] == pytest.approx(4_000, rel=0.01)


def test_a_spark_that_keeps_its_limit_elsewhere_reads_as_many_records_as_it_may() -> None:
    spark = MagicMock()
    spark.sparkContext._jvm.java.lang.Class.forName.side_effect = Py4JError("no such class")

    admin = MagicMock()
    bound = BatchBytes.of(spark, Settings(batch_bytes_max=1_048_576), {}, admin)
    bound.look({"half": {0: 0}})

    assert bound.events == Settings().batch_events_max
    assert admin.mock_calls == []


def test_a_limit_is_set_for_each_query_that_runs() -> None:
    spark, query = MagicMock(), MagicMock()
    execution = MagicMock(**{"uniqueSources_$eq": MagicMock()})
    query._jsq.streamingQuery.return_value = execution
    spark.streams.active = [query]

    put_in_force(spark, 7)

    limits = spark.sparkContext._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    limits.maxRows.assert_called_once_with(7)
    getattr(execution, "uniqueSources_$eq").assert_called_once()


def test_a_header_whose_name_is_no_text_does_not_make_a_record_large() -> None:
    message = MagicMock(error=lambda: None, key=lambda: None, value=lambda: b"12345")
    message.headers.side_effect = UnicodeDecodeError("utf-8", b"", 0, 1, "no text")

    assert size_of(message, LARGEST) == 5


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
    assert events <= reach
    assert sum(count * size for count, size in zip(read, means, strict=True)) <= bytes_max * 1.001
