"""The parts with threads of their own: the check pool, the running transactions."""

from __future__ import annotations

import threading

from checkback.client.checks.pool import CheckPool
from checkback.client.producer import CallsInFlight


def test_a_pool_waits_for_what_runs_and_says_what_it_left() -> None:
    gate, taken, done = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def work(job: int) -> None:
        taken.release()
        gate.wait(60)
        done.release()

    pool: CheckPool[int] = CheckPool("test", threads=2, held=1, work=work)
    pool.start()
    for job in range(2):
        pool.offer(job)
        assert taken.acquire(timeout=60)
    pool.offer(2)
    assert pool.room() == 0
    gate.set()
    for _ in range(3):
        assert done.acquire(timeout=60)
    gate.clear()
    pool.offer(3)
    assert taken.acquire(timeout=60)  # of job 2
    assert taken.acquire(timeout=60)
    assert pool.close(0) >= 1
    gate.set()
    assert pool.close(60) == 0


def test_what_runs_is_waited_for_and_counted() -> None:
    running = CallsInFlight()
    assert running.wait_until_idle(0) == 0
    with running:
        assert running.wait_until_idle(0) == 1
    assert running.wait_until_idle(0) == 0
