"""Checks that a batch has no time for are given back, and asked in their turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat

from tests.integration.bad_records import bodies
from tests.integration.sinking import World, outcome

from checkback.protocol.properties import text_value
from checkback.sinks.check_turns import AT_ONCE, BATCH_S, CheckTurns
from checkback.state import Action

HALVES = 2 * AT_ONCE + 10


def time_for_one_piece() -> Callable[[], float]:
    times = chain([0.0, 0.0], repeat(BATCH_S))
    return lambda: next(times)


def test_checks_that_there_is_no_time_for_hold_up_no_final_and_have_the_next_turn(
    either: World,
) -> None:
    either.halves([b"%d" % number for number in range(HALVES + 1)])
    checks = [(Action.CHECK, offset, 3) for offset in range(HALVES)]
    writer = either.writer()
    turns: CheckTurns = writer._check_turns
    late = HALVES - AT_ONCE

    turns.clock_s = time_for_one_piece()
    report = writer.write([outcome(*checks, (Action.COMMIT, HALVES, 0))], 0, 0)

    assert bodies(either, either.real) == [b"%d" % HALVES]
    assert (report.counts["checks_postponed"], report.asked_groups["g"]) == (late, AT_ONCE)
    assert report.undelivered_groups == {}
    feedback = either.read(either.names.feedback)
    assert sorted(int(value or b"") for _, value, _ in feedback) == list(range(AT_ONCE, HALVES))
    assert {text_value(said, "TRANSACTION_CHECK_TIMES") for _, _, said in feedback} == {"3"}

    turns.clock_s = time_for_one_piece()
    writer.write([outcome(*checks)], 1, 0)

    asked = sorted(int(body or b"") for body in bodies(either, either.names.check("g")))
    assert asked == list(range(2 * AT_ONCE))
