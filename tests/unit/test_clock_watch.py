"""A clock that is set back ends a job that would otherwise wait for it."""

from __future__ import annotations

import pytest

from checkback.protocol.errors import OperationalError
from checkback.streaming.clock_watch import ClockWatch


class Clocks:
    """A wall clock that can be set, and one that only goes forward."""

    def __init__(self, trigger_interval_ms: int) -> None:
        self.wall_ms, self.steady_s = 1_000_000_000, 5.0
        self.watch = ClockWatch(trigger_interval_ms, lambda: self.wall_ms, lambda: self.steady_s)

    def go_on(self, seconds: float, *, step_ms: int = 0) -> None:
        self.steady_s += seconds
        self.wall_ms += int(seconds * 1_000) + step_ms
        self.watch.require_no_step_back()


def test_a_step_back_ends_a_job_with_a_trigger_interval() -> None:
    clocks = Clocks(2_000)
    clocks.go_on(60)

    with pytest.raises(OperationalError, match=r"set back by 1h\.") as told:
        clocks.go_on(1, step_ms=-3_600_000)

    assert told.value.fields["set_back_ms"] == 3_600_000


def test_small_steps_add_up() -> None:
    clocks = Clocks(2_000)
    clocks.go_on(60)
    clocks.go_on(60, step_ms=-6_000)

    with pytest.raises(OperationalError):
        clocks.go_on(60, step_ms=-6_000)


def test_a_step_forward_and_a_short_one_back_are_waited_for() -> None:
    clocks = Clocks(2_000)
    clocks.go_on(60, step_ms=3_600_000)

    clocks.go_on(60, step_ms=-10_000)


def test_without_a_trigger_interval_no_clock_is_waited_for() -> None:
    clocks = Clocks(0)
    clocks.go_on(60)

    clocks.go_on(1, step_ms=-3_600_000)
