"""What the bench of pending halves compares: runs of the same number."""

from __future__ import annotations

import pytest

from checkback.bench.measures import BOUNDS, names_of
from checkback.bench.pending_backlog import EMPTY_BATCH_MS, MANY, NONE, measures_of
from checkback.bench.runs import Run


def run(kind: str, number: int, per_s: float, idle_ms: float, mib: float = 0.0) -> Run:
    rss = {"jvm": 9_999.0, "python_worker": mib, "sink": mib - 1}
    return Run(kind, number, per_s, 0, {}, rss, 0, 0, [], {EMPTY_BATCH_MS: idle_ms})


RUNS = [
    run(NONE, 0, 100, 10), run(MANY, 0, 90, 20, 300),
    run(NONE, 1, 50, 10), run(MANY, 1, 50, 15, 310),
]  # fmt: skip


def test_each_run_with_pending_halves_is_divided_by_its_neighbour_without() -> None:
    found = {one.name: list(one.runs) for one in measures_of(RUNS, [4.0, 5.0], 1_000_000)}

    assert found == {
        "idle_batch_with_pending": [2.0, 1.5],
        "throughput_with_pending": [0.9, 1.0],
        "worker_rss_with_pending": [300.0, 310.0],  # not the JVM's
        "first_batch_after_restart": [4.0, 5.0],
    }


@pytest.mark.parametrize(
    ("pending", "name"),
    [(9_999_999, "idle_batch_with_pending"), (10_000_000, "idle_batch_with_ten_times_pending")],
)
def test_ten_million_pending_halves_have_a_bound_of_their_own(pending: int, name: str) -> None:
    found = measures_of(RUNS, [4.0], pending)

    assert found[0].name == name
    assert {one.name for one in found} <= set(names_of("pending")) <= set(BOUNDS)
