"""Pending halves of one group, although the state knows only its hash."""

from __future__ import annotations

import numpy as np
import pytest

from checkback.checkpoints.pending import PendingHalf, halves_of
from checkback.operations.pending import PendingTransaction, pending_of_group
from checkback.state import Page
from checkback.state.page import PendingHalves


def waiting(*groups: str) -> list[PendingTransaction]:
    """Transactions of these groups, the oldest first."""
    return [
        PendingTransaction(PendingHalf(0, number, number, 0, 0), f"u{number}", group, "orders")
        for number, group in enumerate(groups)
    ]


@pytest.mark.parametrize(
    ("groups", "most", "ids"),
    [
        ("", 3, []),
        ("g", 3, ["u0"]),
        ("ggg", 2, ["u0", "u1"]),
        ("hhhg", 2, ["u3"]),
        ("hhhhhhhhhggg", 2, ["u9", "u10"]),
        ("hhhh", 1, []),
    ],
)
def test_a_group_with_the_same_hash_hides_nothing(groups: str, most: int, ids: list[str]) -> None:
    found = pending_of_group(lambda wanted: waiting(*groups)[:wanted], "g", most)

    assert [one.transaction_id for one in found] == ids


def test_rows_are_halves_by_offset_with_the_hash_of_their_group() -> None:
    empty = Page.empty(3, 2, 100)
    group_hash = np.array([-1, 7]) << 48
    halves = PendingHalves(
        np.array([5, 9]), np.array([1_000, 2_000]), np.array([7_000, 8_000]), np.array([0, 4]),
        group_hash | 123,
    )  # fmt: skip
    page = Page(3, 2, 100, halves, empty.waiting, empty.settled)

    rows = halves_of(page, None).to_pylist()

    assert rows == [
        {"partition": 3, "offset": 205, "store_time_ms": 1_000, "deadline_ms": 7_000,
         "check_times": 0, "tag": -1},
        {"partition": 3, "offset": 209, "store_time_ms": 2_000, "deadline_ms": 8_000,
         "check_times": 4, "tag": 7},
    ]  # fmt: skip
    assert halves_of(page, 1_000).to_pylist() == rows[:1]
    assert halves_of(page, 999).to_pylist() == []
