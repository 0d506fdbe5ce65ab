"""Ops against the half they name."""

from __future__ import annotations

import pytest
from tests.property.paged import events_of
from tests.unit.state.building import (
    COMMIT,
    DUE,
    ROLLBACK,
    SENT,
    Act,
    Story,
    half,
    op,
)

from checkback.protocol.errors import UsageError
from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Counter
from checkback.state.formats.outcome import REST_UNKNOWN
from checkback.state.steps.ops import WAITING_OPS_PER_OFFSET_MAX


def refused(source: int, reason: RefusedReason, offset: int = 0) -> Act:
    return Act(Action.REFUSE_OP, offset, reason, source)


def test_an_op_waits_as_long_as_verdicts_are_remembered_from_when_it_was_read() -> None:
    read = SENT + 7_200_000
    story = Story()
    assert story.batch(read, op(0, COMMIT)) == []
    assert story.wake_at_ms == read + 3_600_000
    assert story.batch(read + 3_600_000) == []
    assert story.batch(read + 3_600_001) == [refused(0, RefusedReason.OP_WITHOUT_HALF)]
    assert story.counters[Counter.OPS_EXPIRED] == story.counters[Counter.REFUSALS] == 1
    assert story.page.is_empty
    assert story.wake_at_ms is None


def test_no_more_than_a_few_ops_wait_for_one_half() -> None:
    story = Story()
    number = WAITING_OPS_PER_OFFSET_MAX
    acts = story.batch(SENT, *(op(0, COMMIT, source) for source in range(number + 2)))
    late = [refused(number + more, RefusedReason.OP_WITHOUT_HALF) for more in (0, 1)]
    assert acts == late
    assert story.batch(SENT, op(0, COMMIT, 9)) == [refused(9, RefusedReason.OP_WITHOUT_HALF)]
    assert len(story.page.waiting) == number


def test_a_verdict_is_forgotten_in_time_and_later_ops_expire_as_without_half() -> None:
    story = Story()
    story.batch(SENT, half(0), op(0, COMMIT, 0))
    forget_at = story.wake_at_ms
    assert forget_at is not None
    assert 3_600_000 <= forget_at - SENT <= 3_600_000 + 3_600_000 // 64
    story.batch(forget_at)
    assert story.page.settled.verdict[0] == 1
    story.batch(forget_at + 1)
    assert story.page.is_empty
    assert story.batch(forget_at + 2, op(0, ROLLBACK, 1)) == []
    later = forget_at + 2 + 3_600_001
    assert story.batch(later) == [refused(1, RefusedReason.OP_WITHOUT_HALF)]


def test_a_page_that_keeps_only_an_op_is_not_empty_and_has_no_oldest_half() -> None:
    story = Story()
    story.batch(SENT, op(0, COMMIT))
    assert not story.page.is_empty
    assert (story.page.pending, story.page.oldest_ms) == (0, -1)


def test_a_page_refuses_events_of_another() -> None:
    for offset in (1023, 2048):
        with pytest.raises(UsageError, match="outside page 1"):
            Story(page=1).batch(SENT, half(offset))
        with pytest.raises(UsageError, match="outside page 1"):
            Story(page=1).batch(SENT, op(offset, COMMIT))


def test_an_outcome_tells_the_identity_of_the_halves_that_are_to_be_looked_up() -> None:
    story = Story()
    story.batch(SENT, half(0, transaction=2), half(1, transaction=3))
    story.batch(DUE, op(0, COMMIT, transaction=2), op(1, COMMIT, transaction=2))

    known = story.outcome
    assert known.action.tolist() == [Action.COMMIT, Action.REFUSE_OP, Action.CHECK]
    halves = events_of([half(0, transaction=2), half(1, transaction=3)])
    assert known.identity is not None
    assert known.identity_rest is not None
    assert known.identity[[0, 2]].tolist() == halves.identity.tolist()
    assert known.identity_rest[[0, 2]].tolist() == halves.identity_rest.tolist()
    assert known.identity_rest[1] == REST_UNKNOWN
