"""Probes: alive while the loop turns, ready while batches come and the brokers answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Thread

import pytest

from checkback.metrics.health import BEAT_S_MAX, REACHED_S, Health, batch_age_s_max


@dataclass
class World:
    now_s: float = 1_000.0
    unreached: str = ""
    asked: int = 0
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health(60.0, self.reach, lambda: self.now_s)

    def reach(self) -> str:
        self.asked += 1
        return self.unreached


@pytest.fixture
def world() -> World:
    """A job whose query runs."""
    made = World()
    made.health.started()
    return made


def test_a_job_that_starts_is_alive_and_not_ready() -> None:
    world = World()
    world.now_s += 10 * BEAT_S_MAX

    assert world.health.alive().is_well
    assert world.health.ready() == (False, "the job starts")
    assert world.asked == 0


def test_a_job_whose_query_runs_is_ready(world: World) -> None:
    world.now_s += 21
    before_the_first = world.health.ready()
    world.health.batch_written()

    assert before_the_first == (
        True, "ready; no batch was written since the query started 21s ago",
    )  # fmt: skip
    assert world.health.ready() == (True, "ready; the last batch is 0s old")


def test_a_late_batch_makes_it_unready_and_the_next_batch_ready(world: World) -> None:
    world.health.batch_written()
    world.now_s += 61
    late = world.health.ready()
    world.health.batch_written()

    assert late == (False, "the last batch is 1m1s old, more than 1m")
    assert world.health.ready().is_well


def test_brokers_that_do_not_answer_make_it_unready(world: World) -> None:
    world.unreached = "timed out"

    assert world.health.ready() == (False, "the brokers can't be reached: timed out")


def test_brokers_are_not_asked_at_every_probe(world: World) -> None:
    for _ in range(5):
        world.health.ready()
    before = world.asked
    world.now_s += REACHED_S + 1
    world.health.ready()

    assert (before, world.asked) == (1, 2)


def test_a_loop_that_hangs_is_not_alive(world: World) -> None:
    world.now_s += BEAT_S_MAX + 1
    hangs = world.health.alive()
    world.health.beat()

    assert hangs == (False, "the driver's loop has not turned for 2m1s")
    assert world.health.alive().is_well


def test_a_batch_whose_thread_died_is_not_alive(world: World) -> None:
    """Spark waited for ever, and the job counted as alive."""
    died = Thread(target=lambda: None)
    died.start()
    died.join()
    world.health.batch_begun(died)
    dead = world.health.alive()
    world.health.batch_over()

    assert dead == (False, "the thread that writes batches has ended amid a batch")
    assert world.health.alive().is_well


def test_records_that_are_not_read_make_it_unready_although_batches_come(world: World) -> None:
    world.health.batch_written()
    world.health.looked(60.0, "3 unread on half, the oldest for 1m")
    waits = world.health.ready()
    world.health.looked(75.0, "3 unread on half, the oldest for 1m15s")

    assert waits == (
        True, "ready; the last batch is 0s old; 3 unread on half, the oldest for 1m",
    )  # fmt: skip
    assert world.health.ready() == (
        False, "nothing was read for 1m15s: 3 unread on half, the oldest for 1m15s",
    )  # fmt: skip


def test_a_job_that_ends_waits_for_its_last_batch_and_is_alive(world: World) -> None:
    world.health.ending()
    world.now_s += 10 * BEAT_S_MAX

    assert world.health.alive().is_well
    assert world.health.ready() == (False, "the job ends")


@pytest.mark.parametrize(("trigger_ms", "age_s"), [(0, 60), (2_000, 60), (60_000, 600)])
def test_a_batch_is_late_after_ten_triggers_but_not_within_a_minute(
    trigger_ms: int, age_s: int
) -> None:
    assert batch_age_s_max(trigger_ms) == age_s
