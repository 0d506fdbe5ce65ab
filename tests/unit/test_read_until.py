"""Up to which time everything was read, told from the plans of two batches."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from checkback.checkpoints.logs import PlannedBatch
from checkback.state import NOTHING_READ
from checkback.streaming.read_until import read_until_ms, was_cut

BEFORE_MS, NOW_MS = 5_000, 9_000


def plan(timestamp_ms: int, half: int, op: int) -> PlannedBatch:
    return PlannedBatch(timestamp_ms, {"half": {0: half}, "op": {0: op}}, {})


def rate_limited(sizes: list[int], limit: int) -> list[int]:
    """What Spark takes of each partition: KafkaMicroBatchStream.rateLimit, 4.2.0."""
    total = float(sum(sizes))
    if total < 1:
        return sizes
    shares = [limit * (size / total) for size in sizes]
    taken = [math.ceil(share) if share < 1 else math.floor(share) for share in shares]
    return [min(pair) if pair[0] else 0 for pair in zip(sizes, taken, strict=True)]


def test_a_batch_that_was_not_cut_read_what_was_there_when_the_one_before_was_planned() -> None:
    before = plan(BEFORE_MS, 100, 100)

    assert read_until_ms(plan(NOW_MS, 150, 140), before, 1_000) == BEFORE_MS
    assert read_until_ms(plan(NOW_MS, 100, 100), before, 1) == BEFORE_MS


def test_a_batch_that_may_have_been_cut_tells_nothing() -> None:
    before = plan(BEFORE_MS, 100, 100)

    assert read_until_ms(plan(NOW_MS, 600, 600), before, 1_000) == NOTHING_READ
    assert read_until_ms(plan(NOW_MS, 598, 600), before, 1_001) == NOTHING_READ


def test_the_first_batch_tells_nothing() -> None:
    assert read_until_ms(plan(NOW_MS, 1, 1), None, 1_000) == NOTHING_READ


def test_a_clock_that_was_set_back_makes_it_no_later_than_the_batch() -> None:
    assert read_until_ms(plan(4_000, 1, 1), plan(BEFORE_MS, 0, 0), 1_000) == 4_000


def test_a_partition_that_is_new_counts_from_its_beginning() -> None:
    wider = PlannedBatch(NOW_MS, {"half": {0: 100, 1: 990}, "op": {0: 100, 1: 0}}, {})

    assert was_cut(wider, plan(BEFORE_MS, 100, 100), 991)
    assert not was_cut(wider, plan(BEFORE_MS, 100, 100), 992)


@given(st.lists(st.integers(0, 2_000_000), min_size=1, max_size=12), st.integers(1, 1_000_000))
@example([1, 1, 1], 3)
@example([333_333, 333_333, 333_334], 1_000_000)
def test_no_batch_that_spark_cuts_is_taken_for_a_whole_one(sizes: list[int], limit: int) -> None:
    taken = rate_limited(sizes, limit)
    before = PlannedBatch(BEFORE_MS, {"half": dict.fromkeys(range(len(sizes)), 0)}, {})
    batch = PlannedBatch(NOW_MS, {"half": dict(enumerate(taken))}, {})

    if taken != sizes:
        assert was_cut(batch, before, limit)
    elif sum(sizes) + 2 * len(sizes) <= limit:
        assert not was_cut(batch, before, limit)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_a_batch_without_records_is_whole_however_small_the_limit(limit: int) -> None:
    assert not was_cut(plan(NOW_MS, 5, 5), plan(BEFORE_MS, 5, 5), limit)
