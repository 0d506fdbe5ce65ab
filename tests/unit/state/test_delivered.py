"""Halves whose final message was written before the pipeline settled them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.state.building import (
    COMMIT,
    DELIVERED,
    DUE,
    ROLLBACK,
    RULES,
    SENT,
    Act,
    Story,
    direct_op,
    half,
    op,
)

from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Counter, Mark
from checkback.state.formats.settled_marks import pack_settled, unpack_settled
from checkback.state.steps.ops import WAITING_OPS_PER_OFFSET_MAX

INTERVAL = RULES.check_interval_ms


def actions(acts: list[Act]) -> list[Action]:
    return [act.action for act in acts]


def test_a_delivered_half_is_settled_and_no_final_is_asked_for() -> None:
    story = Story()
    acts = story.batch(SENT, half(0), op(0, DELIVERED))
    assert acts == [Act(Action.DELIVERED, 0, 0, 0)]
    assert story.page.pending == 0
    counters = story.counters
    assert (counters[Counter.COMMITS], counters[Counter.DELIVERED]) == (1, 1)
    assert unpack_settled(pack_settled(story.outcome, 1)).mark.tolist() == [Mark.DELIVERED]


def test_a_delivered_op_waits_for_its_half_as_long_as_a_half_may_be_pending() -> None:
    story = Story()
    assert not story.batch(SENT, op(0, DELIVERED))
    assert not story.batch(SENT + RULES.half_retention_ms)
    assert actions(story.batch(SENT + RULES.half_retention_ms, half(0))) == [Action.DELIVERED]


def test_a_delivered_op_whose_half_never_comes_is_refused_in_the_end() -> None:
    story = Story()
    story.batch(SENT, op(0, DELIVERED, 7))
    acts = story.batch(SENT + RULES.half_retention_ms + 1)
    assert acts == [Act(Action.REFUSE_OP, 0, RefusedReason.OP_WITHOUT_HALF, 7)]


def test_no_bound_on_waiting_ops_costs_a_delivered_one() -> None:
    story = Story()
    others = [op(0, COMMIT, at, transaction=2) for at in range(6)]
    story.batch(SENT, *others, op(0, DELIVERED, 9))
    assert len(story.page.waiting) == WAITING_OPS_PER_OFFSET_MAX + 1
    assert Action.DELIVERED in actions(story.batch(SENT, half(0)))


def test_a_page_keeps_no_more_delivered_ops_than_it_can_have_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever halves they name; the honest one had come before the forged ones."""
    monkeypatch.setattr("checkback.state.steps.ops.DELIVERED_OPS_WAITING_MAX", 3)
    story, reason = Story(), RefusedReason.OP_WITHOUT_HALF
    story.batch(SENT, op(0, DELIVERED), op(0, COMMIT), op(1, DELIVERED, 1))
    forged = [op(1, DELIVERED, at, transaction=at) for at in (2, 3, 4)]

    acts = story.batch(SENT, *forged, op(1, COMMIT, 5))

    assert acts == [Act(Action.REFUSE_OP, 1, reason, at) for at in (3, 4)]
    assert len(story.page.waiting) == 3 + 2
    assert Action.DELIVERED in actions(story.batch(SENT, half(0)))
    assert not story.batch(SENT, op(2, DELIVERED, 6)), "there is room again"


def test_a_commit_after_the_delivery_repeats_it() -> None:
    story = Story()
    acts = story.batch(SENT, half(0), op(0, DELIVERED, 0), op(0, COMMIT, 1))
    assert actions(acts) == [Action.DELIVERED]
    assert story.counters[Counter.REPEATED_OPS] == 1
    assert story.counters[Counter.DELIVERED_REFUSED] == 0


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (COMMIT, RefusedReason.DELIVERED_AFTER_COMMIT),
        (DELIVERED, RefusedReason.DELIVERED_AFTER_COMMIT),
        (ROLLBACK, RefusedReason.DELIVERED_AFTER_ROLLBACK),
    ],
)
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_delivered_op_that_meets_a_verdict_is_refused_and_counted(
    first: int, reason: RefusedReason, *, in_one_batch: bool
) -> None:
    story, late = Story(), op(0, DELIVERED, 5)
    if in_one_batch:
        acts = story.batch(SENT, half(0), op(0, first), late)
    else:
        story.batch(SENT, half(0), op(0, first))
        acts = story.batch(SENT + 1, late)
    assert acts[-1] == Act(Action.REFUSE_OP, 0, reason, 5)
    assert story.counters[Counter.DELIVERED_REFUSED] == 1


def test_a_delivered_op_that_meets_a_discard_is_refused_and_counted() -> None:
    story = Story(replace(RULES, check_max=1))
    story.batch(DUE, half(0))
    assert actions(story.batch(DUE + INTERVAL + 1)) == [Action.DISCARD_CHECK_LIMIT]
    acts = story.batch(DUE + INTERVAL + 2, op(0, DELIVERED, 5))
    assert [act.detail for act in acts] == [RefusedReason.DELIVERED_AFTER_DISCARD]
    assert story.counters[Counter.DELIVERED_REFUSED] == 1


def test_a_delivered_op_of_somebody_else_s_half_is_refused() -> None:
    story = Story()
    acts = story.batch(SENT, half(0), op(0, DELIVERED, transaction=2))
    assert [act.detail for act in acts] == [RefusedReason.OP_TRANSACTION_ID_WRONG]
    assert story.page.pending == 1


def test_with_checks_off_delivered_ops_settle() -> None:
    story = Story(replace(RULES, check_enabled=False))
    assert actions(story.batch(SENT, half(0), op(0, DELIVERED))) == [Action.DELIVERED]


def test_what_the_former_direct_topic_says_comes_before_the_ops_of_its_batch() -> None:
    """A process that answered a check could not know that another had delivered the message."""
    story = Story()
    acts = story.batch(SENT, half(0), op(0, COMMIT, 0), direct_op(0, DELIVERED, 9))
    assert actions(acts) == [Action.DELIVERED]
    assert story.counters[Counter.REPEATED_OPS] == 1


def test_a_refused_op_of_the_former_direct_topic_is_counted_and_not_copied() -> None:
    story = Story()
    assert not story.batch(SENT, half(0), direct_op(0, DELIVERED, transaction=2))
    assert story.counters[Counter.REFUSALS] == 1
    assert story.page.pending == 1
