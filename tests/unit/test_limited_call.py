"""Calls that may hang are given up."""

from __future__ import annotations

from threading import Event
from threading import enumerate as living

import pytest

from checkback.sinks.kafka.transaction.limited_call import HangingCallError, call_within


def test_a_call_that_comes_back_has_run_and_its_failure_is_raised() -> None:
    ran: list[int] = []

    call_within(lambda: ran.append(1), 60)

    assert ran == [1]
    with pytest.raises(ZeroDivisionError):
        call_within(lambda: 1 // 0, 60)


def test_a_call_that_never_comes_back_is_given_up() -> None:
    never = Event()

    with pytest.raises(HangingCallError):
        call_within(never.wait, 0.01)

    hanging = [one for one in living() if one.name.endswith("(run)")]
    never.set()
    assert [one.daemon for one in hanging] == [True], "it would keep the process from its end"
