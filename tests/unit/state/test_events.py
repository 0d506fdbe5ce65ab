"""Events, and tables of arrays in general: rows are taken and joined in every column alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tests.property.paged import events_of
from tests.unit.state.building import COMMIT, half, op

from checkback.state import EventKind, Events
from checkback.state.page.columns import Columns


def test_parts_become_one_table_in_their_order() -> None:
    joined = Events.joined(events_of([half(3)]), Events.empty(), events_of([op(1, COMMIT, 7)]))
    assert joined.kind.tolist() == [EventKind.HALF, EventKind.OP]
    assert joined.kind.dtype == np.uint8
    assert joined.offset.tolist() == [3, 1]
    assert joined.source_offset.tolist() == [3, 7]
    assert len(Events.joined(Events.empty())) == 0


def test_rows_of_a_kind_come_in_the_order_of_their_topic() -> None:
    events = events_of([op(5, COMMIT, 9), half(4), op(6, COMMIT, 2), half(1)])
    assert events.of_kind(EventKind.OP).offset.tolist() == [6, 5]
    assert events.of_kind(EventKind.HALF).offset.tolist() == [1, 4]
    assert len(events.of_kind(EventKind.UNDELIVERED)) == 0


def test_rows_that_are_all_of_a_kind_and_in_order_are_not_copied() -> None:
    """The rows of a batch that brings halves only are many."""
    events = events_of([half(1), half(2)])

    assert events.of_kind(EventKind.HALF) is events


@dataclass(frozen=True, slots=True)
class Fruit(Columns):
    kind: NDArray[np.int64]
    weight: NDArray[np.int64]


BASKET = Fruit(np.array([1, 2, 3]), np.array([10, 20, 30]))


def rows(table: Fruit) -> list[tuple[int, int]]:
    return list(zip(table.kind.tolist(), table.weight.tolist(), strict=True))


def test_rows_are_taken_by_position_in_the_order_asked_for_or_by_a_mask() -> None:
    assert rows(BASKET.take(np.array([2, 0]))) == [(3, 30), (1, 10)]
    assert rows(BASKET.take(BASKET.weight > 10)) == [(2, 20), (3, 30)]


def test_parts_are_joined_in_their_order() -> None:
    assert (len(BASKET), len(Fruit.empty())) == (3, 0)
    assert rows(Fruit.joined(BASKET, Fruit.empty(), BASKET.take(np.array([0])))) == [
        (1, 10), (2, 20), (3, 30), (1, 10),
    ]  # fmt: skip
