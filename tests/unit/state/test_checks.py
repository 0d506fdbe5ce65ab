"""Check requests, undelivered checks, discards, and the switches: checkback.state.steps.checks."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.state.building import (
    COMMIT,
    DUE,
    RULES,
    SENT,
    Act,
    Story,
    half,
    op,
)

from checkback.state import NOTHING_READ, Action, Counter
from checkback.state.steps.halves import IMMUNITY_MS_MAX
from checkback.state.transitions import TRANSITIONS, Event, Phase

INTERVAL = RULES.check_interval_ms


def checks(*asked: tuple[int, int]) -> list[Act]:
    return [Act(Action.CHECK, offset, times, offset) for offset, times in asked]


def test_a_half_is_asked_check_max_times_and_then_discarded() -> None:
    story = Story()
    story.batch(SENT, half(0))
    assert story.wake_at_ms == SENT + 6_000
    for times in (1, 2, 3):
        now = DUE + (times - 1) * (INTERVAL + 1)
        assert story.batch(now) == checks((0, times))
        assert story.wake_at_ms == now + INTERVAL
        assert story.batch(now + INTERVAL) == []
    assert story.batch(now + INTERVAL + 1) == [Act(Action.DISCARD_CHECK_LIMIT, 0, 3, 0)]
    assert story.page.pending == 0


def test_nobody_is_asked_and_nothing_discarded_while_ops_of_that_time_are_unread() -> None:
    story = Story(replace(RULES, half_retention_ms=20_000, check_max=1))
    story.batch(SENT)
    late = SENT + 1_000_000

    assert story.batch(late, half(0), half(1), read_until_ms=NOTHING_READ) == []
    assert story.batch(late, read_until_ms=SENT + 6_000) == []
    assert story.batch(late, read_until_ms=SENT + 6_001) == checks((0, 1), (1, 1))
    assert story.batch(late, op(0, COMMIT), read_until_ms=SENT + 20_000) == [
        Act(Action.COMMIT, 0, 0, 0)
    ]
    assert story.batch(late, read_until_ms=SENT + 20_001) == [Act(Action.DISCARD_EXPIRED, 1, 1, 1)]


def test_on_a_later_page_halves_are_asked_and_discarded_by_their_own_offsets() -> None:
    story = Story(replace(RULES, check_max=1), page_size=8, page=3)
    assert story.batch(DUE, half(26)) == checks((26, 1))
    late = DUE + INTERVAL + 1
    assert story.batch(late) == [Act(Action.DISCARD_CHECK_LIMIT, 26, 1, 26)]


def test_an_immunity_time_beyond_all_bounds_breaks_no_deadline() -> None:
    story = Story()
    story.batch(SENT, half(0, immunity_ms=2**63 - 1))
    assert story.page.halves.deadline_ms.tolist() == [SENT + IMMUNITY_MS_MAX]


def test_the_oldest_are_asked_first_when_the_budget_is_short() -> None:
    story = Story()
    halves = [half(offset, time=SENT - offset // 2) for offset in range(6)]
    story.batch(SENT, *halves)
    assert story.batch(DUE, budget=3) == checks((2, 1), (4, 1), (5, 1))
    assert story.counters[Counter.CHECKS_DEFERRED] == 3
    assert story.wake_at_ms is not None
    assert story.wake_at_ms < DUE
    assert story.batch(DUE + 1, budget=0) == []
    assert story.batch(DUE + 1, budget=2) == checks((0, 1), (3, 1))
    assert story.batch(DUE + 1, budget=2) == checks((1, 1))


def test_with_checks_off_ops_go_on_and_nobody_is_asked_or_discarded() -> None:
    off = replace(RULES, check_enabled=False, half_retention_ms=20_000)
    story = Story(off)
    story.batch(SENT, half(0), half(1))
    assert story.batch(SENT + 30_000, op(1, COMMIT)) == [Act(Action.COMMIT, 1, 0, 1)]
    assert story.wake_at_ms == SENT + 30_000 + INTERVAL


TO_DISCARDED = [
    pair for pair, follows in TRANSITIONS.items()
    if follows.phase is Phase.DISCARDED and pair[0] is not Phase.DISCARDED
]  # fmt: skip


def test_only_silence_discards() -> None:
    assert TO_DISCARDED == [
        (Phase.PENDING, Event.CHECKS_USED_UP),
        (Phase.PENDING, Event.HALF_RETENTION_OVER),
    ]


def test_with_checks_off_a_page_sleeps_until_a_later_deadline() -> None:
    story = Story(replace(RULES, check_enabled=False))
    story.batch(SENT, half(0, immunity_ms=10 * INTERVAL))
    assert story.wake_at_ms == SENT + 10 * INTERVAL


def test_an_outcome_tells_what_is_left_pending_and_how_old_it_is() -> None:
    story = Story()
    story.batch(SENT, half(0, time=SENT - 5), half(1, time=SENT - 9), half(2, time=SENT))
    assert (story.outcome.pending, story.outcome.oldest_ms) == (3, SENT - 9)
    story.batch(SENT, op(1, COMMIT, 0), op(2, COMMIT, 1))
    assert (story.outcome.pending, story.outcome.oldest_ms) == (1, SENT - 5)
    story.batch(SENT, op(0, COMMIT, 2))
    assert (story.outcome.pending, story.outcome.oldest_ms) == (0, -1)


def test_while_nothing_is_known_to_be_read_not_even_the_oldest_half_is_asked_about() -> None:
    at_once = replace(RULES, transaction_timeout_ms=0, half_retention_ms=2**62)
    story = Story(at_once)

    assert story.batch(SENT, half(0, time=0), read_until_ms=NOTHING_READ) == []
    assert story.batch(SENT, read_until_ms=1) != []
