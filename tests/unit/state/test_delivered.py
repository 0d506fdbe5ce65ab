"""Halves whose final message was written before the pipeline settled them."""

from __future__ import annotations

import pytest
from tests.unit.state.building import (
    COMMIT,
    DELIVERED,
    SENT,
    Act,
    Story,
    direct_op,
    half,
    op,
)

from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Counter
from checkback.state.steps.ops import WAITING_OPS_PER_OFFSET_MAX


def actions(acts: list[Act]) -> list[Action]:
    return [act.action for act in acts]


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
