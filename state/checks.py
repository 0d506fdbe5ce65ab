"""Asking back, giving checks back, discarding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkback.state.draft import Draft
from checkback.state.events import Events
from checkback.state.outcome import Action
from checkback.state.page import PendingHalves
from checkback.state.rules import Rules
from checkback.state.transitions import EFFECT, NEXT_PHASE, Effect, Event, Phase

Rows = NDArray[np.intp]


def take_feedback(draft: Draft, undelivered: Events) -> None:
    """Take back the count of checks that found no topic; the next try stays when it is due.

    A feedback speaks of one check, by its count: one that is read twice, or after the half was
    asked again, gives nothing back.
    """
    if not len(undelivered):
        return
    rows = draft.half_row_of()[draft.index_of(undelivered.offset)].tolist()
    check_times = draft.halves.check_times.copy()
    given_back = 0
    for row, counted in zip(rows, undelivered.detail.tolist(), strict=True):
        if row >= 0 and draft.is_pending[row] and 0 < counted == check_times[row]:
            check_times[row] -= 1
            given_back += 1
    draft.count(np.full(given_back, Effect.GIVE_CHECK_BACK, np.uint8))
    _replace(draft, check_times, draft.halves.deadline_ms)


def ask_and_discard(draft: Draft, budget: int) -> None:
    """Discard the halves that are too old or were asked in vain, and ask for those that are due.

    The half that was asked for the last time is discarded one interval later, not at once, so that
    the last answer has the time that the others had. With checks off nothing happens here.
    """
    if not draft.rules.check_enabled or not draft.is_pending.any():
        return
    halves, rules, now_ms = draft.halves, draft.rules, draft.now_ms
    too_old = draft.is_pending & (now_ms - halves.store_time_ms > rules.half_retention_ms)
    due = draft.is_pending & (now_ms > halves.deadline_ms) & ~too_old
    used_up = due & (halves.check_times >= rules.check_max)
    _discard(draft, np.flatnonzero(too_old), Event.RETENTION_OVER, Action.DISCARD_EXPIRED)
    _discard(draft, np.flatnonzero(used_up), Event.CHECKS_USED_UP, Action.DISCARD_CHECK_LIMIT)
    _ask(draft, np.flatnonzero(due & ~used_up), budget)


def _discard(draft: Draft, rows: Rows, event: Event, action: Action) -> None:
    if len(rows):
        offset = draft.halves.index[rows] + draft.page.first_offset
        draft.act(action, offset, draft.halves.check_times[rows])
        draft.settle(rows, Phase(NEXT_PHASE[Phase.PENDING, event]))
        draft.count(np.full(len(rows), EFFECT[Phase.PENDING, event], np.uint8))


def _ask(draft: Draft, due: Rows, budget: int) -> None:
    if not len(due):
        return
    rows = due
    if len(due) > budget:
        oldest_first = np.argsort(draft.halves.deadline_ms[due], kind="stable")
        rows = np.sort(due[oldest_first[: max(0, budget)]])
        draft.count_deferred(len(due) - len(rows))
    check_times = draft.halves.check_times.copy()
    deadline_ms = draft.halves.deadline_ms.copy()
    check_times[rows] += 1
    deadline_ms[rows] = draft.now_ms + draft.rules.check_interval_ms
    _replace(draft, check_times, deadline_ms)
    draft.count(np.full(len(rows), EFFECT[Phase.PENDING, Event.CHECK_DUE], np.uint8))
    offset = draft.halves.index[rows] + draft.page.first_offset
    draft.act(Action.CHECK, offset, check_times[rows])


def _replace(draft: Draft, check_times: NDArray[np.int64], deadline_ms: NDArray[np.int64]) -> None:
    halves = draft.halves
    draft.halves = PendingHalves(
        halves.index, halves.store_time_ms, deadline_ms, check_times, halves.identity
    )


def next_deadline_ms(halves: PendingHalves, now_ms: int, rules: Rules) -> int:
    """Return when something becomes due for these halves.

    With checks off nothing does, but the page looks again after an interval: a restart with checks
    on finds the row's timeout as this call left it.
    """
    expiry_ms = int(halves.store_time_ms.min()) + rules.half_retention_ms
    due_ms = min(int(halves.deadline_ms.min()), expiry_ms)
    return due_ms if rules.check_enabled else max(due_ms, now_ms + rules.check_interval_ms)
