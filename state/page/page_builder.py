"""A page during a batch: arrays that the rules change, and the outcome that they collect."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.errors import UsageError
from checkback.state.formats.events import Events
from checkback.state.formats.outcome import (
    FINISH_BOUNDS_MS,
    FINISH_NUMBERS,
    REST_UNKNOWN,
    Action,
    Counter,
    Outcome,
)
from checkback.state.formats.relay_limits import NO_RELAY, RelayLimits
from checkback.state.page.page import Page, PendingHalves, SettledOffsets, WaitingOps
from checkback.state.rules import Rules
from checkback.state.transitions import ACTION, COUNTERS, NEXT_PHASE, NO_ACTION, Event, Phase

Ints = NDArray[np.int64]
Codes = NDArray[np.uint8]
"""Phases, events or actions, one each."""

_COUNTERS: Final = COUNTERS.reshape(-1, len(Counter)).astype(np.int64)
_FINISH_BOUNDS: Final = np.array(FINISH_BOUNDS_MS, np.int64)


class PageBuilder:
    """The mutable form of a page during one call of the engine.

    Attributes:
        read_until_ms: no half and no op of this time or before is unread; at most `now_ms`.
        relay: the limits of the page's partition.
        phase: uint8[page_size], Phase of each offset.
        halves: pending at the start or come in this batch.
        is_pending: bool[k], false once a half of `halves` has got its verdict.
        waiting: ops that wait.
        settled_now: int64 arrays, indices of the halves that got a verdict in this batch.
        settled: remembered verdicts, of earlier batches until they are brought up to date.
    """

    def __init__(
        self,
        page: Page,
        now_ms: int,
        rules: Rules,
        *,
        read_until_ms: int,
        tell_prepared: bool,
        relay: RelayLimits = NO_RELAY,
    ) -> None:
        self.page = page
        self.now_ms = now_ms
        self.read_until_ms = min(now_ms, read_until_ms)
        self.rules = rules
        self.tell_prepared = tell_prepared
        self.relay = relay
        self.halves: PendingHalves = page.halves
        self.is_pending = np.ones(len(page.halves), np.bool_)
        self.waiting: WaitingOps = page.waiting
        self.settled: SettledOffsets = page.settled
        self.settled_now: list[Ints] = []
        self.phase = page.settled.verdict.copy()
        self.phase[page.halves.index] = Phase.PENDING
        self._counters = np.zeros(len(Counter), np.int64)
        self._finished = np.zeros(FINISH_NUMBERS, np.int64)
        self._acts: list[tuple[NDArray[np.uint8], Ints, Ints, Ints, Ints, Ints]] = []

    def index_of(self, offset: Ints) -> Ints:
        """Return where in the page these half offsets are.

        Raises:
            UsageError: one of them is in another page.
        """
        index = offset - self.page.first_offset
        if len(index) and (index.min() < 0 or index.max() >= self.page.page_size):
            raise UsageError(
                f"An event names an offset outside page {self.page.page}.",
                remedy="Give a page the offsets page * page_size up to the next page only.",
                page=self.page.page,
                page_size=self.page.page_size,
            )
        return index

    def half_row_of(self) -> NDArray[np.int32]:
        """Return int32[page_size], the row in `halves` of each offset, -1 without one."""
        rows = np.full(self.page.page_size, -1, np.int32)
        rows[self.halves.index] = np.arange(len(self.halves), dtype=np.int32)
        return rows

    def count(self, phase: Phase | Codes, event: Event | Codes) -> None:
        """Count the transitions of these pairs of a phase and an event."""
        pair = np.asarray(phase, np.intp) * len(Event) + event
        times = np.bincount(np.atleast_1d(pair), minlength=len(_COUNTERS))
        self._counters += times @ _COUNTERS

    def apply(self, event: Event | Codes, rows: NDArray[np.intp], detail: Ints | int = 0) -> None:
        """Let an event happen to pending halves: count it, act on it, and give their verdict.

        Args:
            event: the same for all halves, or of each.
            rows: of the halves in `halves`.
            detail: see Outcome.
        """
        if not len(rows):
            return
        events = np.broadcast_to(np.asarray(event, np.uint8), rows.shape)
        self.count(Phase.PENDING, events)
        action, after = ACTION[Phase.PENDING, events], NEXT_PHASE[Phase.PENDING, events]
        if action[0] != NO_ACTION:
            offset = self.halves.index[rows] + self.page.first_offset
            self.act(action, offset, detail, rows=rows)
        if after[0] != Phase.PENDING:
            self._settle(rows, after)

    def count_refusals(self, number: int) -> None:
        """Count records that were refused before the table was asked."""
        self._counters[Counter.REFUSALS] += number

    def count_finished(self, rows: NDArray[np.intp]) -> None:
        """Count the ages at which the halves in these rows are committed or rolled back."""
        age_ms = np.maximum(0, self.now_ms - self.halves.store_time_ms[rows])
        within = np.searchsorted(_FINISH_BOUNDS, age_ms)
        self._finished[:-1] += np.bincount(within, minlength=FINISH_NUMBERS - 1)
        self._finished[-1] += age_ms.sum()

    def count_deferred(self, number: int) -> None:
        """Count halves that were due but over the budget."""
        self._counters[Counter.CHECKS_DEFERRED] += number

    def act(
        self,
        action: Action | NDArray[np.uint8],
        offset: Ints,
        detail: Ints | NDArray[np.uint8] | int,
        source_offset: Ints | None = None,
        rows: NDArray[np.intp] | None = None,
        refused: Events | None = None,
    ) -> None:
        """Add rows to the outcome; a single action or detail applies to all rows.

        What names its halves is `rows` of those in `halves`, or the `refused` halves themselves.
        """
        if not len(offset):
            return
        shape = offset.shape
        self._acts.append(
            (
                np.broadcast_to(np.asarray(action, np.uint8), shape),
                offset,
                np.broadcast_to(np.asarray(detail, np.int64), shape),
                offset if source_offset is None else source_offset,
                *self._identity(rows, refused, shape),
            )
        )

    def _identity(
        self, rows: NDArray[np.intp] | None, refused: Events | None, shape: tuple[int, ...]
    ) -> tuple[Ints, Ints]:
        if rows is not None:
            return self.halves.identity[rows], self.halves.identity_rest[rows]
        if refused is not None:
            return refused.identity, refused.identity_rest
        return np.zeros(shape, np.int64), np.full(shape, REST_UNKNOWN, np.int64)

    def _settle(self, rows: NDArray[np.intp], phase: Codes) -> None:
        index = self.halves.index[rows]
        self.phase[index] = phase
        self.is_pending[rows] = False
        self.settled_now.append(index)

    def page_after(self) -> Page:
        """Return the page as it is to be remembered."""
        page = self.page
        halves = self.halves if self.is_pending.all() else self.halves.take(self.is_pending)
        return Page(page.partition, page.page, page.page_size, halves, self.waiting, self.settled)

    def outcome_of(self, after: Page) -> Outcome:
        """Return the outcome, given the page that is left."""
        columns = list(zip(*self._acts, strict=True)) or [()] * 6
        action, offset, detail, source, identity, identity_rest = (
            _joined(column) for column in columns
        )
        return Outcome(
            self.page.partition,
            self.page.page,
            self.now_ms,
            action.astype(np.uint8),
            offset,
            detail.astype(np.int32),
            source,
            self._counters,
            after.pending,
            after.oldest_ms,
            identity,
            identity_rest,
            finished=self._finished,
        )


def _joined(column: tuple[NDArray[np.uint8] | Ints, ...]) -> Ints:
    if not column:
        return np.zeros(0, np.int64)
    return np.concatenate(column).astype(np.int64, copy=False)
