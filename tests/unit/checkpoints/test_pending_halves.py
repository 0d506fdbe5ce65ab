"""Pending halves in the state's pages: the oldest, those of a group, and how many a group has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.deciding import plain_half
from tests.property.paged import first_words

from checkback.checkpoints.pending.pending_halves import (
    PendingGroup,
    PendingTable,
    group_tag,
    halves_of,
)
from checkback.checkpoints.spark_files.state_rows import StoredPage
from checkback.operations.transactions.pending import oldest_in
from checkback.state import Page
from checkback.state.page.page import PendingHalves


def test_rows_are_halves_by_offset_with_the_hash_of_their_group() -> None:
    empty = Page.empty(3, 2, 100)
    identity = first_words(np.array([-1, 7]), np.array([123, 123]))
    halves = PendingHalves(
        np.array([5, 9]), np.array([1_000, 2_000]), np.array([7_000, 8_000]), np.array([0, 4]),
        identity, np.array([1, 2]),
    )  # fmt: skip
    page = Page(3, 2, 100, halves, empty.waiting, empty.settled)

    rows = [(3, 205, 1_000, 7_000, 0, -1), (3, 209, 2_000, 8_000, 4, 7)]
    assert halves_of(page).tolist() == rows


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

    table = PendingTable.of([StoredPage(0, asked.pack(), 0), stored(1, "g", 4)])
    (found,) = table.groups.values()

    assert (found.pending, found.asked_again) == (4, 1)


def places(pages: list[StoredPage], most: int = 10, **chosen: Any) -> list[tuple[int, int]]:
    found, _ = PendingTable.of(pages).page("age", 0, most, **chosen)
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

    found = sorted(PendingTable.of(pages).groups.values(), key=lambda one: one.oldest_ms)

    assert found == [PendingGroup(3, 500, 2, 0, 0), PendingGroup(1, 2_000, 1, 0, 0)]


def test_the_oldest_are_chosen_without_loading_pandas() -> None:
    """It took longer to load than all else that `checkback pending` does."""
    program = """
import sys
from checkback.checkpoints.pending.pending_halves import PendingTable
import checkback.operations.transactions.pending
assert PendingTable.of([]).page("age", 0, 3) == ([], 0)
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_of_equally_old_halves_the_first_places_are_chosen() -> None:
    pages = [stored(1, "g", *[1_000] * 5, 500), stored(0, "g", *[1_000] * 5)]

    assert places(pages, most=4) == [(1, 5), (0, 0), (0, 1), (0, 2)]
    assert places(pages, most=0) == []


class Halves:
    """The half topic; the halves at these offsets are of the group h, all others of g."""

    def __init__(self, *of_h: int) -> None:
        self.of_h = of_h

    def read(self, partition: int, offsets: Any) -> Any:  # noqa: ARG002 - the protocol names it
        for at in offsets.tolist():
            headers = plain_half(f"u{at}", "orders", "h" if at in self.of_h else "g")
            yield at, SimpleNamespace(headers=lambda headers=headers: headers)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("of_h", "most", "ids"),
    [
        ((), 2, ["u0", "u1"]),
        ((0, 1, 2), 2, ["u3"]),
        ((0, 1), 1, ["u2"]),
        ((0, 1, 2, 3), 1, []),
        ((), 0, []),
    ],
)
def test_a_group_with_the_same_hash_hides_nothing(
    of_h: tuple[int, ...], most: int, ids: list[str]
) -> None:
    table = PendingTable.of([stored(0, "g", 1, 2, 3, 4)])

    found = oldest_in(table, Halves(*of_h), most, group="g")

    assert [one.transaction_id for one in found] == ids
    assert len(oldest_in(table, Halves(*of_h), 10)) == 4
