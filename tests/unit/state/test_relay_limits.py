"""Rules 8 and 9 of the relay, as a page keeps them (docs/decisions/relay.md)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.state.building import COMMIT, DELIVERED, RULES, SENT, Act, Story, half, op

from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Events, RelayLimits

PAGE_SIZE = 8
PAGES = pytest.mark.parametrize("page", [0, 3])


def commits(acts: list[Act]) -> list[int]:
    return [act.offset for act in acts if act.action == Action.COMMIT]


@PAGES
@pytest.mark.parametrize("floor", [0, 3, 9])
def test_rule_8_nothing_at_or_above_the_floor_is_discarded(page: int, floor: int) -> None:
    story, first = Story(page_size=PAGE_SIZE, page=page), page * PAGE_SIZE
    story.batch(SENT, *(half(first + number) for number in range(6)))

    acts = story.batch(SENT + RULES.half_retention_ms + 1, relay=RelayLimits(floor=first + floor))

    assert {act.action for act in acts} <= {Action.DISCARD_EXPIRED}
    assert [act.offset for act in acts] == [first + number for number in range(min(floor, 6))]


def test_rule_8_a_half_asked_in_vain_stays_until_the_floor_has_passed_it() -> None:
    story, now = Story(), SENT + RULES.transaction_timeout_ms + 1
    story.batch(SENT, half(0))
    held, passed = RelayLimits(floor=0), RelayLimits(floor=1)
    asked = []
    for _ in range(RULES.check_max + 3):
        asked += story.batch(now, relay=held)
        now += RULES.check_interval_ms + 1

    assert [act.action for act in asked] == [Action.CHECK] * RULES.check_max
    [discarded] = story.batch(now, relay=passed)
    assert discarded.action == Action.DISCARD_CHECK_LIMIT


@PAGES
@pytest.mark.parametrize("waits", [True, False])
def test_rule_9_an_op_in_front_of_the_relays_decides_no_half_of_theirs(
    page: int, *, waits: bool
) -> None:
    story = Story(page_size=PAGE_SIZE, page=page)
    last, theirs = page * PAGE_SIZE + 4, page * PAGE_SIZE + 5
    taken = RelayLimits(taken=((100, theirs),))
    ops = [op(last, COMMIT, 98), op(theirs, COMMIT, 99), op(theirs, COMMIT, 100, transaction=1)]
    acts = story.batch(SENT, *ops[:2]) if waits else []
    acts += story.batch(SENT, *(ops[2:] if waits else ops), relay=taken)
    acts += story.batch(SENT, half(last), half(theirs), relay=taken)

    assert commits(acts) == [last, theirs]
    refused = [act for act in acts if act.action == Action.REFUSE_OP]
    assert refused == [Act(Action.REFUSE_OP, theirs, RefusedReason.OP_WITHOUT_HALF, 99)]


def test_rule_9_holds_for_each_span_that_relays_took() -> None:
    limits = RelayLimits(taken=((100, 5), (200, 50)))
    ops, halves = np.array([99, 99, 100, 199, 200]), np.array([5, 4, 5, 50, 50])
    assert limits.come_too_early(ops, halves).tolist() == [True, False, False, True, False]


def test_an_op_that_is_delivered_and_then_passed_again_is_delivered() -> None:
    """Its relay did not learn whether the first transaction was committed."""
    twice = [op(0, COMMIT, 7), op(0, DELIVERED, 7)]
    acts = Story().batch(SENT, half(0), *twice)

    assert acts == [Act(Action.DELIVERED, 0, 0, 0)]


def test_events_with_one_offset_have_one_order() -> None:
    one = Events(*(np.array(column) for column in ([2], [0], [0], [1], [8], [7], [0])))
    two = Events(*(np.array(column) for column in ([2], [0], [0], [1], [9], [7], [0])))

    for parts in ((one, two), (two, one)):
        assert Events.joined(*parts).of_kind(2).detail.tolist() == [9, 8]  # type: ignore[arg-type]
