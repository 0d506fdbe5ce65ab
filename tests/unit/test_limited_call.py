"""Calls that may hang: their threads are kept, and those that hang are given up."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, current_thread
from threading import enumerate as living

import pytest

from checkback.sinks.kafka.transaction.limited_call import (
    IDLE_CALLERS,
    HangingCallError,
    call_within,
)


@pytest.fixture(autouse=True)
def no_idle_callers() -> Iterator[None]:
    IDLE_CALLERS.clear()
    yield
    IDLE_CALLERS.clear()


def test_a_call_that_comes_back_has_run_and_its_failure_is_raised() -> None:
    ran: list[int] = []

    call_within(lambda: ran.append(1), 60)

    assert ran == [1]
    with pytest.raises(ZeroDivisionError):
        call_within(lambda: 1 // 0, 60)


def test_the_next_call_has_the_same_thread_also_after_a_failure() -> None:
    threads = list[int]()
    for _ in range(3):
        call_within(lambda: threads.append(current_thread().native_id or 0), 60)
        with pytest.raises(ZeroDivisionError):
            call_within(lambda: 1 // 0, 60)

    assert len(set(threads)) == 1
    assert threads[0] != current_thread().native_id


def test_a_call_that_never_comes_back_is_given_up_and_the_next_has_another_thread() -> None:
    never, ran = Event(), list[int]()

    with pytest.raises(HangingCallError):
        call_within(never.wait, 0.01)
    call_within(lambda: ran.append(1), 60)

    hanging = [one for one in living() if one.name.endswith("(_call_each)")]
    never.set()
    assert ran == [1]
    assert hanging
    assert all(one.daemon for one in hanging), "they would keep the process from its end"


def test_threads_may_make_calls_at_once() -> None:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = [pool.submit(call_within, lambda: None, 60) for _ in range(4_000)]
            assert [one.exception() for one in made] == [None] * len(made)
    finally:
        sys.setswitchinterval(before_s)

    assert len(IDLE_CALLERS) <= 8


def test_nothing_of_a_call_stays_behind() -> None:
    class Producer:
        def send(self) -> None:
            """Take what a real one takes."""

    producer = Producer()
    seen = weakref.ref(producer)
    call_within(producer.send, 60)
    with pytest.raises(TypeError):
        call_within(partial(producer.send, 1), 60)  # type: ignore[call-arg]
    del producer
    call_within(lambda: None, 60)  # by then the thread has put the first call down
    assert seen() is None


def test_a_child_process_has_threads_of_its_own() -> None:
    call_within(lambda: None, 60)
    child = os.fork()
    if not child:
        try:
            call_within(lambda: None, 10)
        except BaseException:
            os._exit(1)
        os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
