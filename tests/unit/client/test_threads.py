"""The parts with threads of their own: the check pool, the timers, the running transactions."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue

import pytest

from checkback.client.check_pool import CheckPool
from checkback.client.running import Running
from checkback.client.timers import Timers


def test_a_pool_grows_only_when_its_queue_is_full() -> None:
    gate, taken, done = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def work(job: int) -> None:
        taken.release()
        gate.wait(10)
        done.release()

    pool: CheckPool[int] = CheckPool("test", least=1, most=2, held=1, work=work)
    assert pool.room() == 1
    pool.offer(1)
    assert taken.acquire(timeout=10)
    pool.offer(2)
    assert pool.room() == 1  # the queue is full, but another thread may be added
    pool.offer(3)
    assert pool.stuck_for_s(time.monotonic() - 1_000) <= 0
    gate.set()
    for _ in range(3):
        assert done.acquire(timeout=10)
    assert pool.close(10) == 0


def test_a_pool_says_for_how_long_all_its_threads_are_stuck() -> None:
    gate, started = threading.Event(), threading.Event()

    def work(job: int) -> None:
        started.set()
        gate.wait(10)

    pool: CheckPool[int] = CheckPool("test", least=1, most=1, held=5, work=work)
    assert pool.stuck_for_s(time.monotonic()) == 0
    pool.offer(1)
    assert started.wait(10)
    assert pool.stuck_for_s(time.monotonic() + 100) >= 100
    assert pool.close(0) == 1
    gate.set()
    assert pool.close(10) == 0


def test_timers_run_in_the_order_of_their_time() -> None:
    now_s, ran = 0.0, SimpleQueue[str]()
    timers = Timers("test", lambda: now_s)

    timers.after(20, lambda: ran.put("late"))
    timers.after(0, lambda: ran.put("soon"))
    assert ran.get(timeout=10) == "soon"
    now_s = 0.02
    timers.after(1, lambda: ran.put("later"))  # has the thread look at the clock again
    assert ran.get(timeout=10) == "late"
    timers.close()


def test_a_failing_action_stops_no_other() -> None:
    timers, end = Timers("test"), threading.Event()
    timers.after(0, lambda: [].pop())
    timers.after(1, end.set)
    assert end.wait(10)
    timers.close()


def test_what_runs_is_waited_for_and_counted() -> None:
    running = Running()
    assert running.wait_until_idle(0) == 0
    with running:
        assert running.wait_until_idle(0) == 1
    assert running.wait_until_idle(0) == 0


def no_thread_starts(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_pool_to_which_no_thread_can_be_added_goes_on_with_those_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, done = threading.Event(), threading.Semaphore(0)

    def work(job: int) -> None:
        gate.wait(10)
        done.release()

    pool: CheckPool[int] = CheckPool("test", least=1, most=2, held=1, work=work)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread_starts)
        assert not pool.grow()
    pool.offer(1)
    time_s = time.monotonic()
    while not pool.stuck_for_s(time_s + 100):  # its one thread has taken it
        assert time.monotonic() < time_s + 10
    gate.set()
    assert done.acquire(timeout=10)
    assert pool.close(10) == 0


def test_timers_without_a_thread_say_so_and_run_what_comes_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers, ran = Timers("test"), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread_starts)
        assert not timers.after(0, leave_alone)

    assert timers.after(0, ran.set)
    assert ran.wait(10)
    timers.close()


def leave_alone() -> None:
    raise AssertionError("it was dropped")
