"""Whether the machine had the same speed in two runs."""

from __future__ import annotations

import time

from checkback.bench.speed import SpeedWatch, work_of_two, work_us


def test_the_work_is_measured_without_the_time_it_waited() -> None:
    started_s = time.perf_counter()
    took_us = work_us()

    assert 0 < took_us <= (time.perf_counter() - started_s) * 1e6


def test_the_median_is_that_of_the_span() -> None:
    watch = SpeedWatch([(1.0, 900.0), (2.0, 400.0), (3.0, 500.0), (4.0, 420.0), (5.0, 10.0)])

    assert watch.work_us_between(2, 4) == 420
    assert watch.work_us_between(6, 7) == 0


def test_two_processes_do_more_than_one_and_no_more_than_two() -> None:
    assert 0.5 < work_of_two(1) < 3.0
