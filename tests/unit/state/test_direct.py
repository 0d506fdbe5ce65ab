"""Halves that their producer may deliver itself: settled as delivered, discarded after a fence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.state.building import (
    CLOSED,
    COMMIT,
    DELIVERED,
    DUE,
    ROLLBACK,
    RULES,
    SENT,
    UNKNOWN,
    Act,
    Story,
    direct_half,
    direct_op,
    fenced,
    half,
    op,
)

from checkback.protocol.refusals import RefusedReason
from checkback.state import DIRECT_SOURCE, NOTHING_READ, Action, Counter, Mark
from checkback.state.ops import WAITING_OPS_PER_OFFSET_MAX
from checkback.state.settled import pack_settled, unpack_settled

ONE_CHECK = replace(RULES, check_max=1)
INTERVAL = RULES.check_interval_ms
FENCE_AGE = RULES.half_retention_ms - INTERVAL


def actions(acts: list[Act]) -> list[Action]:
    return [act.action for act in acts]


def asked_once() -> Story:
    """Return a page with one direct half whose only check request was sent at DUE."""
    story = Story(ONE_CHECK)
    assert actions(story.batch(DUE, direct_half(0))) == [Action.CHECK_DIRECT]
    return story


def test_the_check_of_a_closed_half_is_that_of_a_plain_one() -> None:
    """Whoever answers it fences nobody; its owner's session goes on with others."""
    story = Story()
    story.batch(SENT, direct_half(0), direct_half(1), direct_op(0, UNKNOWN | CLOSED))
    assert actions(story.batch(DUE)) == [Action.CHECK, Action.CHECK_DIRECT]


def test_an_op_that_closes_one_half_closes_no_other_of_its_batch() -> None:
    story = Story()
    story.batch(
        SENT,
        *(direct_half(offset) for offset in range(3)),
        direct_op(0, UNKNOWN | CLOSED, 0),
        direct_op(1, UNKNOWN, 1),
        direct_op(9, UNKNOWN | CLOSED, 2),
    )
    direct = Action.CHECK_DIRECT
    assert actions(story.batch(DUE)) == [Action.CHECK, direct, direct]


def test_a_closed_half_is_discarded_without_a_fence() -> None:
    story = Story(ONE_CHECK)
    story.batch(SENT, direct_half(0), direct_op(0, UNKNOWN | CLOSED))
    story.batch(DUE)
    assert actions(story.batch(DUE + INTERVAL + 1)) == [Action.DISCARD_CHECK_LIMIT]


def test_only_an_op_of_the_half_itself_closes_it() -> None:
    story = Story()
    story.batch(SENT, direct_half(0), direct_op(0, UNKNOWN | CLOSED, transaction=2))
    assert actions(story.batch(DUE)) == [Action.CHECK_DIRECT]


def test_a_delivered_half_is_settled_and_no_final_is_asked_for() -> None:
    story = Story()
    acts = story.batch(SENT, direct_half(0), direct_op(0, DELIVERED))
    assert acts == [Act(Action.DELIVERED, 0, 0, 0)]
    assert story.page.pending == 0
    counters = story.counters
    assert (counters[Counter.COMMITS], counters[Counter.DELIVERED]) == (1, 1)
    assert unpack_settled(pack_settled(story.outcome, 1)).mark.tolist() == [Mark.DELIVERED]


def test_a_delivered_op_waits_for_its_half_as_long_as_a_half_may_be_pending() -> None:
    story = Story()
    assert not story.batch(SENT, direct_op(0, DELIVERED))
    assert not story.batch(SENT + RULES.half_retention_ms)
    assert actions(story.batch(SENT + RULES.half_retention_ms, direct_half(0))) == [
        Action.DELIVERED
    ]


def test_a_delivered_op_whose_half_never_comes_is_refused_in_the_end() -> None:
    story = Story()
    story.batch(SENT, direct_op(0, DELIVERED, 7))
    acts = story.batch(SENT + RULES.half_retention_ms + 1)
    assert acts == [Act(Action.REFUSE_OP, 0, RefusedReason.OP_WITHOUT_HALF, DIRECT_SOURCE + 7)]


def test_no_bound_on_waiting_ops_costs_a_delivered_one() -> None:
    story = Story()
    others = [direct_op(0, COMMIT | CLOSED, at, transaction=2) for at in range(6)]
    story.batch(SENT, *others, direct_op(0, DELIVERED, 9))
    assert len(story.page.waiting) == WAITING_OPS_PER_OFFSET_MAX + 1
    assert Action.DELIVERED in actions(story.batch(SENT, direct_half(0)))


def test_a_page_keeps_no_more_delivered_ops_than_it_can_have_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever halves they name; the honest one had come before the forged ones."""
    monkeypatch.setattr("checkback.state.ops.DELIVERED_OPS_WAITING_MAX", 3)
    story, reason = Story(), RefusedReason.OP_WITHOUT_HALF
    story.batch(SENT, direct_op(0, DELIVERED), op(0, COMMIT), direct_op(1, DELIVERED, 1))
    forged = [direct_op(1, DELIVERED, at, transaction=at) for at in (2, 3, 4)]

    acts = story.batch(SENT, *forged, op(1, COMMIT, 5))

    late = [Act(Action.REFUSE_OP, 1, reason, DIRECT_SOURCE + at) for at in (3, 4)]
    assert acts == late
    assert len(story.page.waiting) == 3 + 2
    assert Action.DELIVERED in actions(story.batch(SENT, direct_half(0)))
    assert not story.batch(SENT, direct_op(2, DELIVERED, 6)), "there is room again"


@pytest.mark.parametrize("said", [COMMIT, ROLLBACK])
def test_a_verdict_that_does_not_close_the_session_counts_as_unknown(said: int) -> None:
    story = Story()
    assert not story.batch(SENT, direct_half(0), op(0, said), direct_op(0, said, 1))
    assert story.counters[Counter.UNKNOWN_OPS] == 2
    assert story.page.pending == 1
    assert actions(story.batch(DUE)) == [Action.CHECK_DIRECT], "the session may go on"


@pytest.mark.parametrize(("said", "action"), [(COMMIT, Action.COMMIT), (ROLLBACK, Action.ROLLBACK)])
def test_a_verdict_that_closes_the_session_holds(said: int, action: Action) -> None:
    story = Story()
    assert actions(story.batch(SENT, direct_half(0), direct_op(0, said | CLOSED))) == [action]


def test_unknown_that_closes_the_session_is_no_verdict() -> None:
    story = Story()
    assert not story.batch(SENT, direct_half(0), direct_op(0, UNKNOWN | CLOSED))
    assert story.page.pending == 1


def test_a_plain_half_needs_no_closed_session() -> None:
    assert actions(Story().batch(SENT, half(0), op(0, COMMIT))) == [Action.COMMIT]


def test_the_first_verdict_holds_and_the_producer_s_own_answer_repeats_it() -> None:
    story = Story()
    acts = story.batch(
        SENT, direct_half(0), direct_op(0, DELIVERED, 0), direct_op(0, COMMIT | CLOSED, 1)
    )
    assert actions(acts) == [Action.DELIVERED]
    assert story.counters[Counter.REPEATED_OPS] == 1
    assert story.counters[Counter.DELIVERED_REFUSED] == 0


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (COMMIT | CLOSED, RefusedReason.DELIVERED_AFTER_COMMIT),
        (DELIVERED, RefusedReason.DELIVERED_AFTER_COMMIT),
        (ROLLBACK | CLOSED, RefusedReason.DELIVERED_AFTER_ROLLBACK),
    ],
)
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_delivered_op_that_meets_a_verdict_is_refused_and_counted(
    first: int, reason: RefusedReason, *, in_one_batch: bool
) -> None:
    story, late = Story(), direct_op(0, DELIVERED, 5)
    if in_one_batch:
        acts = story.batch(SENT, direct_half(0), direct_op(0, first), late)
    else:
        story.batch(SENT, direct_half(0), direct_op(0, first))
        acts = story.batch(SENT + 1, late)
    assert acts[-1] == Act(Action.REFUSE_OP, 0, reason, DIRECT_SOURCE + 5)
    assert story.counters[Counter.DELIVERED_REFUSED] == 1


def test_a_delivered_op_that_meets_a_discard_is_refused_and_counted() -> None:
    story = asked_once()
    story.batch(DUE + INTERVAL + 1)
    story.batch(DUE + INTERVAL + 2, fenced(0))
    acts = story.batch(DUE + INTERVAL + 3, direct_op(0, DELIVERED, 5))
    assert [act.detail for act in acts] == [RefusedReason.DELIVERED_AFTER_DISCARD]
    assert story.counters[Counter.DELIVERED_REFUSED] == 1


def test_a_direct_half_that_was_asked_in_vain_is_fenced_not_discarded() -> None:
    story = asked_once()
    acts = story.batch(DUE + INTERVAL + 1)
    assert acts == [Act(Action.FENCE, 0, 1, 0)]
    assert story.page.pending == 1
    assert story.counters[Counter.FENCES] == 1
    assert not len(unpack_settled(pack_settled(story.outcome, 1)).mark)


def test_feedback_of_the_fence_discards_it() -> None:
    story = asked_once()
    story.batch(DUE + INTERVAL + 1)
    acts = story.batch(DUE + INTERVAL + 2, fenced(0))
    assert acts == [Act(Action.DISCARD_CHECK_LIMIT, 0, 1, 0)]
    assert story.page.pending == 0


def test_a_replayed_fence_is_told_again_and_does_nothing_more() -> None:
    story = asked_once()
    story.batch(DUE + INTERVAL + 1)
    assert actions(story.batch(DUE + INTERVAL + 2, fenced(0, 0), fenced(0, 1))) == [
        Action.DISCARD_CHECK_LIMIT
    ]
    assert not story.batch(DUE + INTERVAL + 3, fenced(0, 2))


def test_what_was_delivered_before_the_fence_is_settled_not_discarded() -> None:
    story = asked_once()
    story.batch(DUE + INTERVAL + 1)
    acts = story.batch(DUE + INTERVAL + 2, fenced(0, 1), direct_op(0, DELIVERED, 0))
    assert actions(acts) == [Action.DELIVERED]
    assert story.counters[Counter.DELIVERED_REFUSED] == 0


def test_a_fence_without_feedback_is_asked_for_again_an_interval_later() -> None:
    story = asked_once()
    first = DUE + INTERVAL + 1
    story.batch(first)
    assert not story.batch(first + INTERVAL)
    assert story.wake_at_ms == first + INTERVAL
    assert actions(story.batch(first + INTERVAL + 1)) == [Action.FENCE]


def test_an_old_direct_half_is_fenced_an_interval_before_a_plain_one_is_discarded() -> None:
    story = Story()
    immunity_ms = 10 * RULES.half_retention_ms
    story.batch(SENT, direct_half(0, immunity_ms=immunity_ms), half(1, immunity_ms=immunity_ms))
    assert story.wake_at_ms == SENT + FENCE_AGE
    assert not story.batch(SENT + FENCE_AGE)
    assert story.batch(SENT + FENCE_AGE + 1) == [Act(Action.FENCE, 0, 0, 0)]
    assert story.wake_at_ms == SENT + RULES.half_retention_ms
    assert not story.batch(SENT + FENCE_AGE + 2)
    acts = story.batch(SENT + RULES.half_retention_ms + 1, fenced(0))
    assert sorted(actions(acts)) == [Action.DISCARD_EXPIRED, Action.DISCARD_EXPIRED]


@pytest.mark.parametrize("kept_ms", [9_999, 10_000])
@pytest.mark.parametrize("interval_ms", [10_000, 10_001, 60_000])
def test_where_halves_are_kept_for_an_interval_only_a_new_direct_half_is_not_fenced(
    interval_ms: int, kept_ms: int
) -> None:
    """It was given up in the batch that read it, before its producer could deliver it."""
    story = Story(replace(RULES, half_retention_ms=kept_ms, check_interval_ms=interval_ms))

    assert actions(story.batch(SENT + 5_000, direct_half(0))) == []
    assert story.wake_at_ms == SENT + 5_000
    assert actions(story.batch(SENT + 5_001)) == [Action.FENCE]


def test_on_a_later_page_a_half_is_fenced_by_its_own_offset() -> None:
    story = Story(page_size=8, page=3)
    acts = story.batch(SENT + FENCE_AGE + 1, direct_half(26))
    assert acts == [Act(Action.FENCE, 26, 0, 26)]


def test_a_half_that_was_fenced_for_its_age_is_discarded_as_expired_though_it_was_asked() -> None:
    story = Story()
    assert actions(story.batch(DUE, direct_half(0))) == [Action.CHECK_DIRECT]
    assert actions(story.batch(SENT + FENCE_AGE + 1)) == [Action.FENCE]
    acts = story.batch(SENT + FENCE_AGE + 2, fenced(0))
    assert acts == [Act(Action.DISCARD_EXPIRED, 0, 1, 0)]


def test_nothing_is_fenced_while_ops_of_that_time_are_unread() -> None:
    story = asked_once()
    assert not story.batch(SENT + RULES.half_retention_ms, read_until_ms=NOTHING_READ)


def test_feedback_of_a_fence_says_nothing_of_a_plain_half() -> None:
    story = Story()
    assert not story.batch(SENT, half(0), fenced(0), fenced(1))
    assert story.page.pending == 1


def test_feedback_of_a_fence_that_was_not_asked_for_says_nothing() -> None:
    """Producers write to the same topic: any of them could have a half given up."""
    story = asked_once()
    assert not story.batch(DUE + 1, fenced(0))
    assert not story.batch(DUE + 2, direct_half(1, time=DUE), fenced(1))
    assert actions(story.batch(DUE + 3, direct_op(0, DELIVERED, 5))) == [Action.DELIVERED]
    assert story.page.pending == 1


def test_feedback_of_a_fence_that_does_not_know_its_half_says_nothing() -> None:
    """It was forged while the fence was asked for; what was delivered before may be unread."""
    story = asked_once()
    assert actions(story.batch(DUE + INTERVAL + 1)) == [Action.FENCE]
    assert not story.batch(DUE + INTERVAL + 2, fenced(0, 0, transaction=2))
    delivered = story.batch(DUE + INTERVAL + 3, direct_op(0, DELIVERED, 1), fenced(0, 2))
    assert actions(delivered) == [Action.DELIVERED]


def test_a_forged_fence_beside_the_true_one_changes_nothing() -> None:
    story = asked_once()
    story.batch(DUE + INTERVAL + 1)
    acts = story.batch(DUE + INTERVAL + 2, fenced(0, 0, transaction=2), fenced(0, 1), fenced(0, 2))
    assert actions(acts) == [Action.DISCARD_CHECK_LIMIT]


def test_a_direct_half_is_taken_while_transactions_are_rejected() -> None:
    """Its producer may deliver it all the same."""
    story = Story(replace(RULES, reject_transactions=True))
    acts = story.batch(SENT, direct_half(0), half(1), direct_op(0, DELIVERED))
    assert actions(acts) == [Action.REFUSE_HALF, Action.DELIVERED]


def test_a_delivered_op_of_somebody_else_s_half_is_refused() -> None:
    story = Story()
    acts = story.batch(SENT, direct_half(0), direct_op(0, DELIVERED, transaction=2))
    assert [act.detail for act in acts] == [RefusedReason.OP_TRANSACTION_ID_WRONG]
    assert story.page.pending == 1


def test_with_checks_off_delivered_ops_settle() -> None:
    story = Story(replace(RULES, check_enabled=False))
    acts = story.batch(SENT, direct_half(0), direct_op(0, DELIVERED))
    assert actions(acts) == [Action.DELIVERED]
