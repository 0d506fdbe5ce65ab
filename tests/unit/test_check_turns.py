"""Looking halves up for checks has a share of a batch's time, and each half has its turn."""

from __future__ import annotations

from itertools import chain, repeat

import numpy as np

from checkback.sinks.check_turns import AT_ONCE, BATCH_S, CheckTurns
from checkback.sinks.plan import Lookup
from checkback.state import Action

Place = tuple[int, int]


def lookup(partition: int, *offsets: int) -> Lookup:
    rows = len(offsets)
    return Lookup(
        partition,
        np.array(offsets, np.int64),
        np.full(rows, Action.CHECK, np.uint8),
        np.full(rows, 3, np.int32),
        np.array([(partition, offset) for offset in offsets], np.int64).reshape(rows, 2),
    )


def dealt(turns: CheckTurns, checks: list[Lookup]) -> tuple[list[Place], list[Place]]:
    """Return the places that are looked up, and those for which there is no time."""
    places: tuple[list[Place], list[Place]] = ([], [])
    for piece, is_in_time in turns.of(checks):
        assert piece.identity.tolist() == [[piece.partition, one] for one in piece.offset.tolist()]
        assert set(piece.detail.tolist()) == {3}
        places[not is_in_time].extend((piece.partition, one) for one in piece.offset.tolist())
    return places


def test_all_are_looked_up_in_their_order_where_there_is_time() -> None:
    checks = [lookup(0, *range(200)), lookup(1), lookup(2, 7, 9)]

    in_time, late = dealt(CheckTurns(lambda: 5.0), checks)

    assert in_time == [*((0, offset) for offset in range(200)), (2, 7), (2, 9)]
    assert not late


def test_the_next_batch_begins_with_those_that_were_late() -> None:
    checks = [lookup(0, *range(2 * AT_ONCE)), lookup(1, *range(2 * AT_ONCE)), lookup(3, 4)]
    every = {(one.partition, offset) for one in checks for offset in one.offset.tolist()}
    now_s: list[float] = []
    turns = CheckTurns(lambda: now_s.pop(0))
    seen: list[Place] = []
    for _ in range(5):
        # One piece of a batch is in time.
        now_s[:] = [0.0, 0.0, *repeat(BATCH_S, 9)]
        in_time, late = dealt(turns, checks)
        assert {*in_time, *late} == every
        assert len(in_time) + len(late) == len(every)
        seen += in_time

    assert sorted(seen) == sorted(every)


def test_a_place_that_is_gone_is_no_place_to_begin_at() -> None:
    now_s = chain([0.0, BATCH_S], repeat(BATCH_S))
    turns = CheckTurns(lambda: next(now_s))
    assert dealt(turns, [lookup(5, 100)]) == ([], [(5, 100)])
    turns.clock_s = lambda: 0.0

    assert dealt(turns, [lookup(1, 3), lookup(5, 7)]) == ([(1, 3), (5, 7)], [])
