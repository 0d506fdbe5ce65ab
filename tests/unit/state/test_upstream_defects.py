"""Defects of RocketMQ that concern the rules, by issue number; Checkback does not have them."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.state.building import (
    COMMIT,
    DUE,
    ROLLBACK,
    RULES,
    SENT,
    Act,
    Story,
    half,
    op,
    undelivered,
)

from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Counter


def test_5574_a_second_commit_delivers_nothing() -> None:
    story = Story()
    assert story.batch(SENT, half(0), op(0, COMMIT, 0)) == [Act(Action.COMMIT, 0, 0, 0)]
    assert story.batch(SENT + 1, op(0, COMMIT, 1), op(0, COMMIT, 2)) == []
    assert story.counters[Counter.REPEATED_OPS] == 2


def test_2694_a_commit_after_a_rollback_delivers_nothing_and_is_refused() -> None:
    story = Story()
    story.batch(SENT, half(0), op(0, ROLLBACK, 0))
    refused = Act(Action.REFUSE_OP, 0, RefusedReason.COMMIT_AFTER_ROLLBACK, 1)
    assert story.batch(SENT + 1, op(0, COMMIT, 1)) == [refused]


def test_8158_a_late_answer_to_the_first_check_settles_a_half_that_was_asked_again() -> None:
    story = Story()
    story.batch(SENT, half(0))
    asked = [story.batch(DUE), story.batch(DUE + 60_001)]
    assert asked == [[Act(Action.CHECK, 0, 1, 0)], [Act(Action.CHECK, 0, 2, 0)]]
    assert story.batch(DUE + 60_002, op(0, COMMIT)) == [Act(Action.COMMIT, 0, 0, 0)]
    assert story.batch(DUE + 200_000, op(0, COMMIT, 1)) == []


def test_615_immunity_time_uses_up_no_check() -> None:
    story = Story(replace(RULES, check_interval_ms=1_000))
    story.batch(SENT, half(0, immunity_ms=60_000))
    waited = [story.batch(SENT + step) for step in range(1_000, 60_001, 1_000)]
    assert waited == [[]] * 60
    assert story.batch(SENT + 60_001) == [Act(Action.CHECK, 0, 1, 0)]


def test_8311_an_op_far_behind_others_is_read_before_its_half_is_discarded() -> None:
    story = Story(replace(RULES, check_max=1))
    story.batch(SENT, *(half(offset) for offset in range(200)))
    story.batch(DUE)
    ops = [op(199 - place, COMMIT, place) for place in range(200)]
    acts = story.batch(DUE + 60_001, *ops)
    assert {act.action for act in acts} == {Action.COMMIT}
    assert len(acts) == 200


def test_9320_an_op_in_the_batch_of_the_discard_wins() -> None:
    story = Story(replace(RULES, check_max=1))
    story.batch(SENT, half(0), half(1))
    story.batch(DUE)
    acts = story.batch(DUE + 60_001, op(1, ROLLBACK))
    assert acts == [Act(Action.ROLLBACK, 1, 0, 1), Act(Action.DISCARD_CHECK_LIMIT, 0, 1, 0)]


def test_the_last_answer_has_an_interval_to_arrive() -> None:
    """RocketMQ discards in the round of the last check request (seen on 5.3.3)."""
    story = Story(replace(RULES, check_max=1))
    story.batch(SENT, half(0))
    assert story.batch(DUE) == [Act(Action.CHECK, 0, 1, 0)]
    assert story.batch(DUE + 60_000) == []
    assert story.batch(DUE + 60_001) == [Act(Action.DISCARD_CHECK_LIMIT, 0, 1, 0)]


def test_7240_a_commit_settles_the_half_it_names_and_no_other() -> None:
    story = Story()
    story.batch(SENT, half(0), half(1), half(2))
    assert story.batch(SENT + 1, op(1, COMMIT)) == [Act(Action.COMMIT, 1, 0, 1)]
    assert [act.offset for act in story.batch(DUE)] == [0, 2]


def test_544_9486_no_millisecond_is_lost_between_immune_and_due() -> None:
    for now, asked in ((SENT + 4_999, 0), (SENT + 5_000, 0), (SENT + 5_001, 1)):
        story = Story()
        story.batch(SENT, half(0, immunity_ms=5_000))
        assert story.wake_at_ms == SENT + 5_000
        assert len(story.batch(now)) == asked


def test_1517_nobody_is_asked_about_a_half_that_was_settled_in_the_same_batch() -> None:
    story = Story()
    story.batch(SENT, half(0), half(1))
    acts = story.batch(DUE, op(0, COMMIT, 0), op(1, ROLLBACK, 1))
    assert [act.action for act in acts] == [Action.COMMIT, Action.ROLLBACK]
    assert story.batch(DUE + 60_001) == []


def test_a_young_half_holds_up_no_older_one() -> None:
    """RocketMQ ends its round at the first half that is younger than the timeout."""
    story = Story()
    story.batch(SENT, half(0, time=SENT + 5_000), half(1))
    assert story.batch(DUE) == [Act(Action.CHECK, 1, 1, 1)]


def test_a_group_that_has_no_check_topic_uses_up_no_check() -> None:
    """RocketMQ counts a check although the group has no producer (also 10 above)."""
    story = Story(replace(RULES, check_max=2))
    story.batch(SENT, half(0))
    now = DUE
    for source in range(10):
        assert story.batch(now) == [Act(Action.CHECK, 0, 1, 0)]
        assert story.batch(now + 1, undelivered(0, 1, source)) == []
        now += 60_001
    assert story.batch(now, op(0, COMMIT, 10)) == [Act(Action.COMMIT, 0, 0, 0)]


def test_a_clock_that_is_behind_the_brokers_asks_nobody_early() -> None:
    """RocketMQ #9640 asks at once when a half seems to come from the future."""
    story = Story()
    assert story.batch(SENT - 3_600_000, half(0)) == []
    assert story.batch(SENT) == []
    assert story.batch(DUE) == [Act(Action.CHECK, 0, 1, 0)]


def test_immunity_of_zero_asks_in_the_next_batch_and_a_shorter_one_than_the_default_counts() -> (
    None
):
    story = Story()
    assert story.batch(SENT, half(0, immunity_ms=0), half(1, immunity_ms=2_000)) == []
    assert story.batch(SENT + 1) == [Act(Action.CHECK, 0, 1, 0)]
    assert story.batch(SENT + 2_001) == [Act(Action.CHECK, 1, 1, 1)]
