"""Runs the page engine as Spark does: it calls pages that have data or whose timeout has come."""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from tests.property.model import Act, Record

from checkback.state import Action, Counter, Events, Outcome, Page, Rules, decide
from checkback.state.formats.identity import TRANSACTION_BITS

REST_FROM = 1
"""So that some transactions differ in the first word of the identity, some in the second."""


def first_words(group: NDArray[np.int64], transaction: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return identities' first words from what stands for groups and transactions."""
    return group << TRANSACTION_BITS | transaction


def events_of(records: Iterable[Record]) -> Events:
    """Return records in the engine's form."""
    rows = list(records)
    group = np.array([record.group for record in rows], np.int64)
    transaction = np.array([record.transaction for record in rows], np.int64)
    return Events(
        kind=np.array([record.kind for record in rows], np.uint8),
        offset=np.array([record.offset for record in rows], np.int64),
        time_ms=np.array([record.time for record in rows], np.int64),
        identity=first_words(group, transaction & 2**REST_FROM - 1),
        detail=np.array([record.detail for record in rows], np.int64),
        source_offset=np.array([record.source for record in rows], np.int64),
        identity_rest=transaction >> REST_FROM,
    )


def acts_of(outcome: Outcome) -> list[Act]:
    """Return the rows of an outcome."""
    rows = zip(
        outcome.action.tolist(),
        outcome.offset.tolist(),
        outcome.detail.tolist(),
        outcome.source_offset.tolist(),
        strict=True,
    )
    return [Act(Action(action), *rest) for action, *rest in rows]


def counts_of(outcome: Outcome) -> Tally[Counter]:
    """Return the counters of an outcome that are not zero."""
    return Tally({one: int(outcome.counters[one]) for one in Counter if outcome.counters[one]})


class PagedEngine:
    """State rows by page number, packed as in a checkpoint, and their timeouts."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.rows: dict[int, tuple[bytes, int]] = {}
        self.tell_prepared = False

    def batch(
        self,
        records: Iterable[Record],
        now: int,
        rules: Rules,
        budget: int = 2**31,
        read_until: int = 2**62,
        *,
        wake_all: bool = False,
    ) -> tuple[set[Act], Tally[Counter]]:
        """Return the outcome of one batch, and the sum of the pages' counters."""
        by_page: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            by_page[record.offset // self.page_size].append(record)
        due = [page for page, (_, wake_at) in self.rows.items() if wake_all or wake_at < now]
        acts: list[Act] = []
        tally: Tally[Counter] = Tally()
        for number in sorted({*by_page, *due}):
            outcome = self._call(number, by_page[number], now, rules, budget, read_until)
            acts.extend(acts_of(outcome))
            tally.update(counts_of(outcome))
        assert len(set(acts)) == len(acts), "the same row twice"
        return set(acts), tally

    def _call(
        self,
        number: int,
        records: list[Record],
        now: int,
        rules: Rules,
        budget: int,
        read_until: int,
    ) -> Outcome:
        page = self.page(number)
        told, events = self.tell_prepared, events_of(records)
        decision = decide(
            page, events, now, rules, budget, read_until_ms=read_until, tell_prepared=told
        )
        if decision.wake_at_ms is None:
            assert decision.page.is_empty
            self.rows.pop(number, None)
        else:
            self.rows[number] = decision.page.pack(), decision.wake_at_ms
        assert decision.outcome.pending == decision.page.pending
        return Outcome.unpack(decision.outcome.pack())

    def page(self, number: int) -> Page:
        """Return a page, unpacked from its stored form."""
        if number in self.rows:
            return Page.unpack(self.rows[number][0])
        return Page.empty(0, number, self.page_size)

    def pending_times(self) -> list[int]:
        """Return the broker's times of the pending halves."""
        pages = [self.page(number) for number in self.rows]
        return [time for page in pages for time in page.halves.store_time_ms.tolist()]
