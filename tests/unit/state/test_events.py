"""Events as tables."""

from __future__ import annotations

import numpy as np
from tests.property.paged import events_of
from tests.unit.state.building import COMMIT, half, op

from checkback.state import EventKind, Events


def test_parts_become_one_table_in_their_order() -> None:
    joined = Events.concat(events_of([half(3)]), Events.empty(), events_of([op(1, COMMIT, 7)]))
    assert joined.kind.tolist() == [EventKind.HALF, EventKind.OP]
    assert joined.kind.dtype == np.uint8
    assert joined.offset.tolist() == [3, 1]
    assert joined.source_offset.tolist() == [3, 7]
    assert len(Events.concat()) == 0


def test_rows_of_a_kind_come_in_the_order_of_their_topic() -> None:
    events = events_of([op(5, COMMIT, 9), half(4), op(6, COMMIT, 2), half(1)])
    assert events.of_kind(EventKind.OP).offset.tolist() == [6, 5]
    assert events.of_kind(EventKind.HALF).offset.tolist() == [1, 4]
    assert len(events.of_kind(EventKind.UNDELIVERED)) == 0


def test_rows_that_are_all_of_a_kind_and_in_order_are_not_copied() -> None:
    """The rows of a batch that brings halves only are many."""
    events = events_of([half(1), half(2)])

    assert events.of_kind(EventKind.HALF) is events
