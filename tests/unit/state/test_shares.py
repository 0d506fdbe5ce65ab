"""No group takes what others were to have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.property.paged import events_of
from tests.unit.state.building import DUE, RULES, half

from checkback.state import Action, Page, decide
from checkback.state.formats.events import Events
from checkback.state.formats.identity import group_part
from checkback.state.steps.shares import ranks_in_group, within_shares


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
    events = Events.joined(late, other_group)
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
