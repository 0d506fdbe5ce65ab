"""The storm of check requests: when it comes, and when it is over."""

from __future__ import annotations

from checkback.bench.storm import MARGIN_S, TAKEN_UP_PER_S, StormOptions, asked_ms


def line(at_ms: float, **counts: int) -> tuple[float, dict[str, dict[str, int]]]:
    return at_ms, {"counts": counts}


def test_the_storm_comes_after_loading_and_the_quiet_part() -> None:
    options = StormOptions(pending=4 * TAKEN_UP_PER_S, quiet_seconds=60)

    assert options.due_after_s == 4 + 60 + 10 * MARGIN_S


def test_a_given_time_comes_before_the_estimate() -> None:
    assert StormOptions(due_after_seconds=15).due_after_s == 15


def test_the_storm_is_over_when_the_last_half_was_asked_for() -> None:
    progress = [line(1, checks=2), line(2, finals=9), line(3, checks=3), line(4, checks=5)]

    assert asked_ms(progress, 5) == 3


def test_a_storm_whose_end_was_not_told_lasts_to_the_last_line() -> None:
    assert asked_ms([line(1, checks=2), line(2, checks=2)], 5) == 2
