"""No group takes what others were to have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.property.paged import events_of
from tests.unit.state.building import CLOSED, COMMIT, DELIVERED, DUE, RULES, direct_op, half, op

from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Page, decide
from checkback.state.events import EventKind, Events
from checkback.state.identity import group_part
from checkback.state.shares import OpPages, ranks_in_group, within_shares


def chosen(groups: list[int], taken: dict[int, int], of_group: int, of_all: int) -> list[int]:
    return [*within_shares(np.array(groups, np.int64), taken, of_group, of_all)]


def test_ranks_count_what_stands_before_of_the_same_group() -> None:
    assert ranks_in_group(np.array([7, 3, 7, 7, 3])).tolist() == [0, 0, 1, 2, 1]
    assert ranks_in_group(np.zeros(0, np.int64)).tolist() == []


def test_a_group_stops_at_its_share_and_all_at_theirs() -> None:
    assert chosen([1, 1, 1, 2], {}, of_group=2, of_all=9) == [0, 1, 3]
    assert chosen([1, 1, 1, 2], {1: 2}, of_group=2, of_all=9) == [3]
    assert chosen([1, 2, 3, 4], {}, of_group=2, of_all=3) == [0, 1, 2]
    assert chosen([1], {}, of_group=2, of_all=-1) == []
    assert chosen([], {}, of_group=2, of_all=3) == []


def test_a_group_with_many_overdue_halves_leaves_checks_for_the_others() -> None:
    loud = [half(number, transaction=number) for number in range(6)]
    late = events_of([*loud])
    calm = events_of([half(9, transaction=9)])
    other_group = replace(calm, identity=calm.identity ^ np.int64(1 << 50))
    events = Events.concat(late, other_group)
    loud_group = int(group_part(late.identity)[0])

    made = decide(
        Page.empty(0, 0, 1024), events, DUE, RULES, 4, asked={loud_group: 1}, asked_of_group=3
    )

    asked = made.outcome.offset[made.outcome.action == Action.CHECK].tolist()
    assert asked == [0, 1, 9]
    assert made.page.pending == 7


def test_a_group_gets_what_other_pages_left_of_its_share_however_much_budget_there_is() -> None:
    due = events_of([half(number, transaction=number) for number in range(3)])
    group = int(group_part(due.identity)[0])
    before = {group: 5, group + 1: 0}

    made = decide(Page.empty(0, 0, 1024), due, DUE, RULES, 100, asked=before, asked_of_group=6)

    assert made.outcome.offset[made.outcome.action == Action.CHECK].tolist() == [0]


def test_refused_ops_stand_at_their_own_place_and_say_why() -> None:
    events = events_of([half(3), op(3, COMMIT, source=70), op(4, COMMIT, source=71)])

    changed = events.with_refused_ops(
        np.array([False, False, True]), RefusedReason.OP_PAGES_EXCEEDED
    )

    assert changed.kind.tolist() == [EventKind.HALF, EventKind.OP, EventKind.REFUSED_OP]
    assert changed.offset.tolist() == [3, 3, 71]
    assert changed.detail.tolist() == [-1, COMMIT, RefusedReason.OP_PAGES_EXCEEDED]
    assert events.kind.tolist()[2] == EventKind.OP


def ops_of(group: int, *offsets: int) -> Events:
    return events_of([op(at, COMMIT, source=at, group=group) for at in offsets])


def refused(events: Events) -> int:
    return int(np.count_nonzero(events.kind == EventKind.REFUSED_OP))


def test_a_group_may_name_its_share_of_pages_without_a_half() -> None:
    pages = OpPages()

    loud = [refused(pages.admit(ops_of(1, page * 8, page * 8 + 1), 3)) for page in range(5)]
    calm = refused(pages.admit(ops_of(2, 80), 3))

    assert loud == [0, 0, 0, 2, 2]
    assert calm == 0


def test_names_of_groups_that_cost_nothing_buy_no_more_than_four_shares() -> None:
    pages = OpPages()

    named = [refused(pages.admit(ops_of(group, group), 3)) for group in range(20)]

    assert named == [0] * 12 + [1] * 8


def test_a_page_that_many_groups_name_counts_once() -> None:
    """In a backlog the ops of all groups may be read before their halves, side by side."""
    pages = OpPages()
    of_all = [Events.concat(*(ops_of(group, page * 8) for group in range(9))) for page in range(3)]

    assert [refused(pages.admit(events, 3)) for events in of_all] == [0, 0, 0]
    assert [refused(pages.admit(ops_of(9, page), 3)) for page in range(4)] == [0, 0, 0, 1]


def test_the_ops_of_others_in_the_same_page_pass() -> None:
    pages = OpPages()
    pages.admit(ops_of(1, 1), 1)

    both = pages.admit(Events.concat(ops_of(1, 9), ops_of(2, 10)), 1)

    assert both.kind.tolist() == [EventKind.REFUSED_OP, EventKind.OP]


@pytest.mark.parametrize("state", [DELIVERED, DELIVERED | CLOSED])
def test_a_delivered_op_passes_whoever_was_loud_before(state: int) -> None:
    """Refused, it would be forgotten before its half, whose check then makes a second final."""
    pages = OpPages()
    pages.admit(ops_of(1, 1), 1)
    delivered = events_of([direct_op(9, state)])

    both = pages.admit(Events.concat(delivered, ops_of(1, 10)), 1)

    assert both.kind.tolist() == [EventKind.OP, EventKind.REFUSED_OP]
    assert pages.admit(delivered, 1) is delivered
    assert sum(pages.named.values()) == 1


@pytest.mark.parametrize("kind", [EventKind.HALF, EventKind.DIRECT_HALF])
def test_where_a_half_comes_with_them_all_ops_pass(kind: EventKind) -> None:
    pages = OpPages()
    pages.admit(ops_of(1, 1), 1)
    come = replace(events_of([half(9)]), kind=np.array([kind], np.uint8))
    events = Events.concat(ops_of(1, 9), come)

    assert pages.admit(events, 1) is events
    assert sum(pages.named.values()) == 1
