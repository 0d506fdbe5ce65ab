"""Pending halves in the state's pages: the oldest, those of a group, and how many a group has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.property.paged import first_words

from checkback.checkpoints.pending.pending_halves import (
    PendingGroup,
    PendingHalf,
    group_tag,
    halves_of,
    oldest_pending,
    pending_groups,
)
from checkback.checkpoints.spark_files.state_rows import StoredPage
from checkback.operations.transactions.pending import PendingTransaction, pending_of_group
from checkback.state import Page
from checkback.state.page.page import PendingHalves


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
    identity = first_words(np.array([-1, 7]), np.array([123, 123]))
    halves = PendingHalves(
        np.array([5, 9]), np.array([1_000, 2_000]), np.array([7_000, 8_000]), np.array([0, 4]),
        identity, np.array([1, 2]),
    )  # fmt: skip
    page = Page(3, 2, 100, halves, empty.waiting, empty.settled)

    rows = halves_of(page, None)

    assert rows.tolist() == [(3, 205, 1_000, 7_000, 0, -1), (3, 209, 2_000, 8_000, 4, 7)]
    assert halves_of(page, 1_000).tolist() == rows[:1].tolist()
    assert halves_of(page, 999).tolist() == []


def stored(partition: int, group: str, *store_times_ms: int) -> StoredPage:
    """A page with a half of that group for each time."""
    count = len(store_times_ms)
    empty = Page.empty(partition, 0, 100)
    identity = first_words(np.full(count, group_tag(group)), np.zeros(count, np.int64))
    times, zeros = np.array(store_times_ms), np.zeros(count, np.int64)
    halves = PendingHalves(np.arange(count), times, times + 6_000, zeros, identity, zeros)
    page = Page(partition, 0, 100, halves, empty.waiting, empty.settled)
    return StoredPage(0, page.pack(), 0)


def test_halves_that_were_asked_about_more_than_once_are_counted_by_group() -> None:
    page = Page.unpack(stored(0, "g", 1, 2, 3).blob)
    asked = replace(page, halves=replace(page.halves, check_times=np.array([0, 1, 2])))

    (found,) = pending_groups([StoredPage(0, asked.pack(), 0), stored(1, "g", 4)])

    assert (found.pending, found.asked_again) == (4, 1)


def places(pages: list[StoredPage], most: int = 10, **chosen: Any) -> list[tuple[int, int]]:
    found = oldest_pending(pages, most=most, **chosen)
    return [(half.partition, half.offset) for half in found]


def test_the_oldest_halves_of_all_pages_come_first() -> None:
    pages = [stored(0, "g", 3_000, 1_000), stored(1, "h", 2_000, 3_000)]

    assert places(pages) == [(0, 1), (1, 0), (0, 0), (1, 1)]
    assert places(pages, most=2) == [(0, 1), (1, 0)]
    assert places(pages, stored_until_ms=2_000) == [(0, 1), (1, 0)]
    assert places(pages, group="h") == [(1, 0), (1, 1)]
    assert places([]) == []


def test_what_is_pending_is_counted_by_group_with_its_oldest_half() -> None:
    pages = [stored(0, "g", 3_000, 1_000), stored(1, "h", 2_000), stored(2, "g", 500)]

    found = sorted(pending_groups(pages), key=lambda one: one.oldest_ms)

    assert found == [PendingGroup(3, 500, 2, 0, 0), PendingGroup(1, 2_000, 1, 0, 0)]


def test_the_oldest_are_chosen_without_loading_pandas() -> None:
    """It took longer to load than all else that `checkback pending` does."""
    program = """
import sys
from checkback.checkpoints.pending.pending_halves import oldest_pending
import checkback.operations.transactions.pending
assert oldest_pending([], most=3) == []
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_of_equally_old_halves_the_first_places_are_chosen() -> None:
    pages = [stored(1, "g", *[1_000] * 5, 500), stored(0, "g", *[1_000] * 5)]

    assert places(pages, most=4) == [(1, 5), (0, 0), (0, 1), (0, 2)]
    assert places(pages, most=0) == []
