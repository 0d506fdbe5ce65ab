"""A workload sends the same bytes for the same seed."""

from __future__ import annotations

import zlib
from itertools import islice

import pytest
from bench.runs.workload import Workload, commits_among

from checkback.testing.topics import COMMIT, ROLLBACK

WORKLOAD = Workload(7, 1_024, "orders")


def test_the_seed_decides_every_byte() -> None:
    first, again = (list(islice(WORKLOAD.bodies(2), 5)) for _ in range(2))

    assert first == again
    assert len(set(first)) == 5
    assert first != list(islice(Workload(8, 1_024, "orders").bodies(2), 5))


@pytest.mark.parametrize("size", [1_024, 1_048_576])
def test_bodies_can_not_be_compressed_and_have_their_size(size: int) -> None:
    bodies = list(islice(Workload(7, size, "orders").bodies(0), 40))

    assert {len(body) for body in bodies} == {size}
    assert len(zlib.compress(bodies[0])) > 0.97 * size


@pytest.mark.parametrize("seed", [0, 1, 7, 123])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 1_000])
def test_a_tenth_is_rolled_back(seed: int, count: int) -> None:
    workload = Workload(seed, 1, "orders")
    states = [workload.op(0, offset).state for offset in range(count)]

    assert states.count(COMMIT) == commits_among(seed, count)
    assert states.count(ROLLBACK) in (count // 10, -(-count // 10))


def test_without_rollbacks_all_commit() -> None:
    workload = Workload(7, 1, "orders", has_rollbacks=False)

    assert {workload.op(0, offset).state for offset in range(20)} == {COMMIT}
