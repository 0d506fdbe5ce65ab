"""Tables of arrays: rows are taken and joined in every column alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkback.state.page.columns import Columns


@dataclass(frozen=True, slots=True)
class Fruit(Columns):
    kind: NDArray[np.int64]
    weight: NDArray[np.int64]


BASKET = Fruit(np.array([1, 2, 3]), np.array([10, 20, 30]))


def rows(table: Fruit) -> list[tuple[int, int]]:
    return list(zip(table.kind.tolist(), table.weight.tolist(), strict=True))


def test_rows_are_taken_by_position_in_the_order_asked_for() -> None:
    assert rows(BASKET.take(np.array([2, 0]))) == [(3, 30), (1, 10)]


def test_rows_are_taken_by_a_mask() -> None:
    assert rows(BASKET.take(BASKET.weight > 10)) == [(2, 20), (3, 30)]


def test_parts_are_joined_in_their_order() -> None:
    assert rows(Fruit.joined(BASKET, Fruit.none(), BASKET.take(np.array([0])))) == [
        (1, 10), (2, 20), (3, 30), (1, 10),
    ]  # fmt: skip


def test_a_table_is_as_long_as_its_columns() -> None:
    assert (len(BASKET), len(Fruit.none())) == (3, 0)
