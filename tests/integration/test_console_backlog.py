"""The console over a million pending transactions: any order, filter and page in half a second."""

from __future__ import annotations

import time
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.deciding import plain_half
from tests.property.paged import first_words
from tests.unit.console.console_stage import NOW_MS

from checkback.checkpoints.pending.pending_halves import SORTS, PendingTable, group_tag
from checkback.checkpoints.spark_files.state_rows import StoredPage
from checkback.console.pending_view import PendingView, Reading
from checkback.protocol.configuration import Settings
from checkback.state import Page
from checkback.state.page.page import PendingHalves

ROWS = 1_000_000
PAGE_SIZE = 4_096
GROUPS = 50
PAGE_ROWS = 50
PAGE_S_MAX = 0.5
TRIES = 3
Chosen = tuple[str, int | None]
"""A group and until when halves were stored."""
FILTERS: tuple[Chosen, ...] = (("", None), ("group-7", None), ("", NOW_MS - ROWS // 2))


def stored(page: int) -> StoredPage:
    """A full page, or what is left for the last one; each half is a millisecond older than the
    one before it."""
    index = np.arange(min(PAGE_SIZE, ROWS - page * PAGE_SIZE))
    number = index + page * PAGE_SIZE
    tags = np.array([group_tag(f"group-{one}") for one in range(GROUPS)])[number % GROUPS]
    halves = PendingHalves(
        index, NOW_MS - number, NOW_MS - number + 6_000, number % 15, first_words(tags, index),
        index,
    )  # fmt: skip
    empty = Page.empty(0, page, PAGE_SIZE)
    return StoredPage(0, Page(0, page, PAGE_SIZE, halves, empty.waiting, empty.settled).pack(), 0)


class HalfTopic:
    """Reads single halves as fast as a dictionary; what a broker takes does not grow with ROWS."""

    def read(self, partition: int, offsets: NDArray[np.int64]) -> Any:
        del partition
        for offset in offsets.tolist():
            headers = plain_half(str(offset), "topic", f"group-{offset % GROUPS}")
            yield offset, SimpleNamespace(headers=headers.copy)

    def close(self) -> None:
        pass


def page_s(view: PendingView, chosen: Chosen, sort: str, first: int) -> float:
    """Return the processor time of a page and of the groups beside it, at best.

    Of all threads: without other work on the machine a visitor waits no longer than that.
    """
    took = []
    for _ in range(TRIES):
        began_s = time.process_time()
        view.page(sort, first, PAGE_ROWS, *chosen)
        view.groups()
        took.append(time.process_time() - began_s)
    return min(took)


@pytest.mark.nightly
def test_any_page_of_a_million_pending_transactions_takes_half_a_second() -> None:
    table = PendingTable.of(stored(page) for page in range(-(-ROWS // PAGE_SIZE)))
    reading = Reading(0, table, [])
    view = PendingView(Settings(), lambda *_: reading, lambda _: HalfTopic())
    assert view.page("age", 0, PAGE_ROWS).total == ROWS
    assert dict(view.groups())["group-7"].pending == ROWS // GROUPS

    slow = {}
    for chosen, sort in product(FILTERS, SORTS):
        total = view.page(sort, 0, PAGE_ROWS, *chosen).total
        for first in (0, total // 2, total - PAGE_ROWS):
            took_s = page_s(view, chosen, sort, first)
            if took_s > PAGE_S_MAX:
                slow[chosen, sort, first] = took_s
    assert slow == {}
