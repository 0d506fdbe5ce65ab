"""A clock that runs ahead of the brokers' ends the job."""

from __future__ import annotations

import pytest

from checkback.protocol.errors import BrokerError, OperationalError
from checkback.streaming.start.clock_check import MEASURE_S, AheadWatch


class Cluster:
    """Brokers, a machine whose clock can be set, and a job there."""

    def __init__(self) -> None:
        self.brokers_ms = self.wall_ms = 1_000_000_000
        self.steady_s, self.asked = 5.0, 0
        self.tells = True
        self.watch = AheadWatch(self.ask, lambda: self.wall_ms, lambda: self.steady_s)

    def ask(self) -> int | None:
        self.asked += 1
        return self.brokers_ms if self.tells else None

    def plan(self, later_s: float, *, step_ms: int = 0, is_suspended: bool = False) -> None:
        """Let a batch be planned so much later, before which the machine's clock is set."""
        self.brokers_ms += int(later_s * 1_000)
        self.wall_ms += int(later_s * 1_000) + step_ms
        self.steady_s += 0 if is_suspended else later_s
        self.watch.require_credible(self.wall_ms)


def started() -> Cluster:
    """Return a cluster whose job has compared the clocks at its start."""
    cluster = Cluster()
    cluster.watch.require_agreement()
    return cluster


def test_a_start_with_a_clock_that_is_ahead_of_the_brokers_is_refused() -> None:
    cluster = Cluster()
    cluster.wall_ms += 86_400_000

    with pytest.raises(OperationalError, match=r"is 1d ahead of the brokers'\.") as told:
        cluster.watch.require_agreement()

    assert told.value.fields["ahead_ms"] == 86_400_000


@pytest.mark.parametrize("ahead_ms", [600_000, 0, -86_400_000])
def test_a_start_with_a_clock_that_is_right_or_behind_goes_on(ahead_ms: int) -> None:
    cluster = Cluster()
    cluster.wall_ms += ahead_ms

    cluster.watch.require_agreement()


def test_a_clock_that_is_set_ahead_ends_the_job_with_the_first_batch_of_that_time() -> None:
    cluster = started()
    for _ in range(1_000):
        cluster.plan(7)
    assert cluster.asked == 1

    with pytest.raises(OperationalError, match="4d ahead"):
        cluster.plan(7, step_ms=4 * 86_400_000)


def test_small_steps_ahead_add_up() -> None:
    cluster = started()
    for _ in range(10):
        cluster.plan(60, step_ms=60_000)

    with pytest.raises(OperationalError):
        cluster.plan(60, step_ms=60_000)


def test_a_machine_that_was_suspended_goes_on() -> None:
    cluster = started()

    cluster.plan(86_400, is_suspended=True)
    cluster.plan(7)

    assert cluster.asked == 2


def test_where_the_brokers_do_not_tell_their_time_the_job_goes_on() -> None:
    cluster = Cluster()
    cluster.tells = False
    cluster.watch.require_agreement()

    cluster.plan(7, step_ms=86_400_000)


def test_a_batch_that_an_earlier_start_planned_is_credible() -> None:
    cluster = started()

    cluster.watch.require_credible(cluster.wall_ms - 86_400_000)

    assert cluster.asked == 1


def test_a_clock_is_ahead_by_what_the_quickest_answers_tell() -> None:
    cluster = Cluster()
    cluster.wall_ms += 2_000
    waits_ms = iter((300, 20, 400))

    def slow_answer() -> int:
        stored_ms = cluster.wall_ms - 2_000
        cluster.wall_ms += next(waits_ms)
        return stored_ms

    watch = AheadWatch(slow_answer, lambda: cluster.wall_ms, lambda: cluster.steady_s)
    found = []
    for _ in range(3):
        watch.require_agreement()
        found.append(watch.ahead_ms)

    assert found == [2_300, 2_020, 2_020]


@pytest.mark.parametrize(("step_ms", "ahead_ms"), [(5_000, 5_000), (-5_000, 0)])
def test_a_clock_that_is_set_is_noticed_by_the_next_comparison(step_ms: int, ahead_ms: int) -> None:
    cluster = started()
    assert cluster.watch.ahead_ms == 0

    cluster.wall_ms += step_ms
    cluster.watch.compare_if_due()
    assert cluster.watch.ahead_ms == 0
    cluster.steady_s += MEASURE_S
    cluster.watch.compare_if_due()
    assert cluster.watch.ahead_ms == ahead_ms


def test_brokers_that_do_not_answer_do_not_end_a_job_by_its_clock() -> None:
    cluster = started()

    def silent() -> int:
        raise BrokerError("no answer", remedy="wait")

    cluster.watch.brokers_ms = silent
    cluster.steady_s += MEASURE_S
    cluster.watch.compare_if_due()
