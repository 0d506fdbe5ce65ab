"""Pending halves are compared in runs of the same number; when the storm comes and is over."""

from __future__ import annotations

import pytest
from bench.__main__ import parse
from bench.backlog import (
    EMPTY_BATCH_MS,
    MANY,
    MARGIN_S,
    NONE,
    TAKEN_UP_PER_S,
    asked_ms,
    due_after_s,
    measures_of,
)
from bench.result import BOUNDS, Run


def run(kind: str, number: int, per_s: float, idle_ms: float, mib: float = 0.0) -> Run:
    rss = {"jvm": 9_999.0, "python_worker": mib, "sink": mib - 1}
    return Run(kind, number, per_s, 0, {}, rss, 0, [], {EMPTY_BATCH_MS: idle_ms})


RUNS = [
    run(NONE, 0, 100, 10), run(MANY, 0, 90, 20, 300),
    run(NONE, 1, 50, 10), run(MANY, 1, 50, 15, 310),
]  # fmt: skip


def test_each_run_with_pending_halves_is_divided_by_its_neighbour_without() -> None:
    found = {
        measure.name: list(measure.runs) for measure in measures_of(RUNS, [4.0, 5.0], 1_000_000)
    }

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
    assert {measure.name for measure in found} <= set(BOUNDS)


def line(at_ms: float, **counts: int) -> tuple[float, dict[str, dict[str, int]]]:
    return at_ms, {"counts": counts}


def test_the_storm_comes_after_loading_and_the_quiet_part() -> None:
    options = parse(["backlog", "--pending", f"{4 * TAKEN_UP_PER_S}", "--quiet-seconds", "60"])

    assert due_after_s(options) == 4 + 60 + 10 * MARGIN_S


def test_the_storm_is_over_when_the_last_half_was_asked_for() -> None:
    progress = [line(1, checks=2), line(2, finals=9), line(3, checks=3), line(4, checks=5)]

    assert asked_ms(progress, 5) == 3


def test_a_storm_whose_end_was_not_told_lasts_to_the_last_line() -> None:
    assert asked_ms([line(1, checks=2), line(2, checks=2)], 5) == 2
