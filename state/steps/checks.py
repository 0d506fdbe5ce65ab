"""Asks back, gives checks back, discards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkback.state.formats.events import Events
from checkback.state.formats.identity import group_part
from checkback.state.formats.relay_limits import NO_FLOOR
from checkback.state.page.page import PendingHalves
from checkback.state.page.page_builder import PageBuilder
from checkback.state.rules import Rules
from checkback.state.steps.shares import within_shares
from checkback.state.transitions import Event

Rows = NDArray[np.intp]


def take_feedback(builder: PageBuilder, undelivered: Events) -> None:
    """Take back the count of checks that found no topic; the next try stays when it is due.

    A feedback speaks of one check, by its count: one that is read twice, or after the half was
    asked again, gives nothing back.
    """
    if not len(undelivered):
        return
    rows = builder.half_row_of()[builder.index_of(undelivered.offset)].tolist()
    check_times = builder.halves.check_times.copy()
    given_back = []
    for row, counted in zip(rows, undelivered.detail.tolist(), strict=True):
        if row >= 0 and builder.is_pending[row] and 0 < counted == check_times[row]:
            check_times[row] -= 1
            given_back.append(row)
    builder.halves = replace(builder.halves, check_times=check_times)
    builder.apply(Event.CHECK_UNDELIVERED, np.array(given_back, np.intp))


def ask_and_discard(
    builder: PageBuilder, budget: int, asked: Mapping[int, int], of_group: int
) -> None:
    """Discard the halves that are too old or were asked in vain, and ask for those that are due.

    The half that was asked for the last time is discarded one interval later, not at once, so that
    the last answer has the time that the others had. With checks off nothing happens here.

    Both only go by the time up to which all ops were read: a half with an unread commit is
    neither asked nor discarded.
    """
    if not builder.rules.check_enabled or not builder.is_pending.any():
        return
    halves, rules, read_ms = builder.halves, builder.rules, builder.read_until_ms
    too_old = builder.is_pending & (read_ms - halves.store_time_ms > rules.half_retention_ms)
    due = builder.is_pending & ~too_old & (read_ms > halves.deadline_ms)
    used_up = due & (halves.check_times >= max(1, rules.check_max))
    due &= ~used_up
    if builder.relay.floor != NO_FLOOR:
        below = halves.index + builder.page.first_offset < builder.relay.floor
        # A half that is too old is asked nothing more, also where it may not be discarded yet.
        too_old &= below
        used_up &= below
    for event, is_over in ((Event.HALF_RETENTION_OVER, too_old), (Event.CHECKS_USED_UP, used_up)):
        rows = np.flatnonzero(is_over)
        builder.apply(event, rows, halves.check_times[rows])
    wanted = np.flatnonzero(due)
    if len(wanted):
        rows = _within_shares(builder, wanted, budget, asked, of_group)
        builder.count_deferred(len(wanted) - len(rows))
        _ask(builder, rows)


def _within_shares(
    builder: PageBuilder, due: Rows, budget: int, asked: Mapping[int, int], of_group: int
) -> Rows:
    """Return the halves to be asked about, oldest first within what each group may have."""
    if len(due) <= budget and len(due) + max(asked.values(), default=0) <= of_group:
        return due
    oldest_first = due[np.argsort(builder.halves.deadline_ms[due], kind="stable")]
    groups = group_part(builder.halves.identity[oldest_first])
    return np.sort(oldest_first[within_shares(groups, asked, of_group, budget)])


def _ask(builder: PageBuilder, rows: Rows) -> None:
    check_times = builder.halves.check_times.copy()
    deadline_ms = builder.halves.deadline_ms.copy()
    check_times[rows] += 1
    deadline_ms[rows] = builder.now_ms + builder.rules.check_interval_ms
    builder.halves = replace(builder.halves, deadline_ms=deadline_ms, check_times=check_times)
    builder.apply(Event.CHECK_DUE, rows, check_times[rows])


def next_deadline_ms(halves: PendingHalves, now_ms: int, rules: Rules) -> int:
    """Return when something becomes due for these halves.

    With checks off nothing does, but the page looks again after an interval: a restart with checks
    on finds the row's timeout as this call left it.
    """
    expiry_ms = int(halves.store_time_ms.min()) + rules.half_retention_ms
    due_ms = min(int(halves.deadline_ms.min()), expiry_ms)
    return due_ms if rules.check_enabled else max(due_ms, now_ms + rules.check_interval_ms)
