"""Restores a page from the records on the topics: its marks, halves and ops. Pure.

The marks say what is settled. A half without a verdict is pending. Its check number comes from its
marks, less one if the last request found no topic. Ops that no mark answers are left for the first
batch, which judges them by the rules as any batch does. The same goes for malformed records that
were not refused yet.

A mark is void if its half is not at its offset any more: Kafka lost it, and may have given the
offset to another half. The identity in the mark tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.properties import (
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
)
from checkback.protocol.refusals import ACCESS_REASONS
from checkback.state import EventKind, Events, Mark, Page, Rules, SettledMarks, decide
from checkback.state.formats.events import NO_IMMUNITY
from checkback.state.formats.settled_marks import NO_IDENTITY
from checkback.state.page.page import PendingHalves, SettledOffsets
from checkback.state.steps.ops import is_delivered
from checkback.state.steps.verdict_retention import forget_at_ms
from checkback.state.transitions import Phase

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

CLOCK_MARGIN_MS: Final = 600_000
"""How much older than its half a mark may be, because brokers' and driver's clocks differ."""

_OF_ACCESS: Final = np.array(sorted(ACCESS_REASONS), np.int64)
_PHASE_OF: Final = np.zeros(max(Mark) + 1, np.uint8)
_PHASE_OF[Mark.COMMIT] = Phase.COMMITTED
_PHASE_OF[Mark.DELIVERED] = Phase.COMMITTED
_PHASE_OF[Mark.ROLLBACK] = Phase.ROLLED_BACK
_PHASE_OF[Mark.DISCARD_CHECK_LIMIT] = Phase.DISCARDED
_PHASE_OF[Mark.DISCARD_EXPIRED] = Phase.DISCARDED


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about a whole half partition.

    Args:
        marks_from_ms: marks from before this time may be gone; 0 if none is.
        unknown_are_settled: whether halves from before that time without a mark, and their ops, are
            left alone; else they are treated as pending.
        is_marked_topic: whether the half topic is known by its id as the one that the marks are of.
    """

    first_offset: int
    end_offset: int
    marks_from_ms: int
    unknown_are_settled: bool = False
    is_marked_topic: bool = False


@dataclass(frozen=True, slots=True)
class RestoredCounts:
    """Counts for one page, or for all pages.

    Args:
        settled: half offsets whose marks hold a verdict.
        ops: ops and malformed records left for the first batch.
        unknown: halves without a mark from a time whose marks may be gone: perhaps settled.
        foreign: marks that do not match these halves, and nothing shows that the half topic is
            still the one that they are of.
        void: marks of halves that Kafka lost: another half has their offset now, or none.
        lost: halves with a check request and no verdict that are gone from their topic.
    """

    halves: int = 0
    settled: int = 0
    pending: int = 0
    asked: int = 0
    ops: int = 0
    unknown: int = 0
    foreign: int = 0
    lost: int = 0
    void: int = 0


@dataclass(frozen=True, slots=True)
class RestoredPage:
    """A restored page.

    Args:
        page: the page's state.
        events: the events that the first batch has to judge.
        counts: the page's counts.
    """

    page: Page
    events: Events
    counts: RestoredCounts


@dataclass(frozen=True, slots=True)
class _Marked:
    """What the marks say about each offset of a page; arrays of page_size.

    Args:
        phase: the verdict as a Phase, 0 without one.
        settled_ms: batch time of the verdict.
        refused: whether the half was refused.
        check_times: the highest check number of a request, 0 without requests.
        same_check: how many requests had that number.
        asked_ms: batch time of the latest check request.
        beyond: number of marks for offsets that the half topic has not reached.
        void: keys of the halves that void marks are of, see _keys.
    """

    phase: Bytes
    settled_ms: Ints
    refused: NDArray[np.bool_]
    check_times: Ints
    same_check: Ints
    asked_ms: Ints
    is_sure: NDArray[np.bool_]
    beyond: int
    void: Ints


def restore_page(
    empty: Page,
    events: Events,
    marks: Sequence[SettledMarks],
    known: Known,
    now_ms: int,
    rules: Rules,
) -> RestoredPage:
    """Return the page restored from the topics.

    Args:
        empty: a page with the right numbers and no state.
        events: all halves, ops and feedbacks of the page, without the ops that were already
            refused; in any order.
        marks: the marks that concern this page; they may concern other pages, too.
        known: facts about the page's half partition.
        now_ms: verdicts whose retention has passed by this time are not remembered.
    """
    marked = _marked(empty, events, marks, known)
    events = _believed_then(empty, events, marked)
    halves = events.of_kind(EventKind.HALF)
    index = halves.offset - empty.first_offset
    is_open = (marked.phase[index] == 0) & ~marked.refused[index]
    is_unknown = is_open & (marked.check_times[index] == 0) & (halves.time_ms < known.marks_from_ms)
    left_alone = is_unknown & known.unknown_are_settled
    is_open &= ~left_alone
    ops = events.of_kind(EventKind.OP)
    # They were accepted, and had their effect on halves that are lost.
    ops = ops.take(~np.isin(_keys(empty, ops.offset, ops.identity_rest), marked.void))
    ops = _without(empty, ops, index[left_alone])
    waiting, lost_ops = _ops_left(empty, ops, marked, known)
    settled = _remembered(marked, waiting.offset - empty.first_offset, now_ms, rules)
    page = replace(empty, settled=settled)
    pending = _pending(page, halves.take(is_open), marked, now_ms, rules)
    pending = _checks_given_back(empty, pending, marked, events)
    left = Events.joined(waiting, *_malformed(empty, events, marked))
    asked_lost = (marked.check_times > 0) & (marked.phase == 0)
    asked_lost[index] = False
    counts = RestoredCounts(
        halves=len(halves),
        settled=int(np.count_nonzero(marked.phase)),
        pending=len(pending),
        asked=int(np.count_nonzero(pending.check_times)),
        ops=len(left),
        unknown=int(np.count_nonzero(is_unknown)),
        foreign=_foreign(empty, halves, marked) + marked.beyond,
        lost=int(np.count_nonzero(asked_lost)) + lost_ops,
        void=len(marked.void),
    )
    return RestoredPage(replace(page, halves=pending), left, counts)


def _marked(empty: Page, events: Events, marks: Sequence[SettledMarks], known: Known) -> _Marked:
    size = empty.page_size
    none = [np.zeros(0, np.int64)]
    offset = np.concatenate([*none, *(one.offset for one in marks)])
    mark = np.concatenate([*none, *(one.mark for one in marks)]).astype(np.intp)
    times = np.concatenate([*none, *(one.check_times for one in marks)]).astype(np.int64)
    rest = np.concatenate([*none, *(one.identity_rest for one in marks)]).astype(np.int64)
    now_ms = np.concatenate([*none, *(np.full(len(one.offset), one.now_ms) for one in marks)])
    index = offset - empty.first_offset
    here = (index >= 0) & (index < size)
    is_void = here & _are_void(empty, events, offset, rest, known)
    here &= ~is_void
    beyond = int(np.count_nonzero(here & (offset >= known.end_offset)))
    void = _keys(empty, offset[is_void], rest[is_void])
    columns = index, mark, times, now_ms, rest
    index, mark, times, now_ms, rest = (column[here] for column in columns)
    phase, settled_ms = np.zeros(size, np.uint8), np.zeros(size, np.int64)
    verdict = np.flatnonzero(_PHASE_OF[mark])
    phase[index[verdict]] = _PHASE_OF[mark[verdict]]
    settled_ms[index[verdict]] = now_ms[verdict]
    is_sure = np.zeros(size, np.bool_)
    is_sure[index[verdict]] = rest[verdict] != NO_IDENTITY
    refused = np.zeros(size, np.bool_)
    refused[index[mark == Mark.REFUSED_HALF]] = True
    asked = mark == Mark.ASKED
    checks = _checks(size, index[asked], times[asked], now_ms[asked])
    return _Marked(phase, settled_ms, refused, *checks, is_sure, beyond, void)


def _are_void(
    empty: Page, events: Events, offset: Ints, identity_rest: Ints, known: Known
) -> NDArray[np.bool_]:
    """Return which marks name a half that is not at its offset, though retention kept the offset.

    On a half topic that may be another one than that of the marks, none are: they are foreign.
    """
    halves = events.take(np.isin(events.kind, (EventKind.HALF, EventKind.REFUSED_HALF)))
    there = np.full(empty.page_size, NO_IDENTITY, np.int64)
    there[halves.offset - empty.first_offset] = halves.identity_rest
    in_page = (offset >= empty.first_offset) & (offset < empty.first_offset + empty.page_size)
    index = np.where(in_page, offset - empty.first_offset, 0)
    is_void = in_page & (identity_rest != NO_IDENTITY) & (identity_rest != there[index])
    is_kept = offset >= known.first_offset
    void: NDArray[np.bool_] = is_void & is_kept & known.is_marked_topic
    return void


def _keys(empty: Page, offset: Ints, identity_rest: Ints) -> Ints:
    """Return one number for each pair of an offset in the page and a second word of an identity."""
    return (offset - empty.first_offset) << 32 | identity_rest


def _believed_then(empty: Page, events: Events, marked: _Marked) -> Events:
    """Return the events; a half that was asked about was believed, whatever the rules say now.

    Secrets and permissions change. How long it was to be left alone does not matter any more.
    """
    at = events.offset - empty.first_offset
    chosen = (events.kind == EventKind.REFUSED_HALF) & np.isin(events.detail, _OF_ACCESS)
    chosen &= (marked.check_times[at] > 0) & (marked.phase[at] == 0) & ~marked.refused[at]
    # A mark that is older was for a half of the topic that had this name before.
    chosen &= marked.asked_ms[at] + CLOCK_MARGIN_MS >= events.time_ms
    return replace(
        events,
        kind=np.where(chosen, np.uint8(EventKind.HALF), events.kind),
        detail=np.where(chosen, NO_IMMUNITY, events.detail),
    )


def _foreign(empty: Page, halves: Events, marked: _Marked) -> int:
    """Count the halves whose verdict is older than they are, unless it names its half."""
    index = halves.offset - empty.first_offset
    before = marked.settled_ms[index] + CLOCK_MARGIN_MS < halves.time_ms
    is_foreign = (marked.phase[index] != 0) & before & ~marked.is_sure[index]
    return int(np.count_nonzero(is_foreign))


def _agrees(ops: Events, phase: Bytes) -> NDArray[np.bool_]:
    says_commit = (ops.detail == TRANSACTION_COMMIT_TYPE) | is_delivered(ops.detail)
    committed = says_commit & (phase == Phase.COMMITTED)
    rolled_back = (ops.detail == TRANSACTION_ROLLBACK_TYPE) & (phase == Phase.ROLLED_BACK)
    agrees: NDArray[np.bool_] = committed | rolled_back
    return agrees


def _checks(size: int, index: Ints, times: Ints, now_ms: Ints) -> tuple[Ints, Ints, Ints]:
    highest, same, latest_ms = (np.zeros(size, np.int64) for _ in range(3))
    np.maximum.at(highest, index, times)
    np.maximum.at(latest_ms, index, now_ms)
    np.add.at(same, index[times == highest[index]], 1)
    return highest, same, latest_ms


def _without(empty: Page, ops: Events, left_alone: Ints) -> Events:
    """Return the ops without those for the given halves."""
    is_left_alone = np.zeros(empty.page_size, np.bool_)
    is_left_alone[left_alone] = True
    return ops.take(~is_left_alone[ops.offset - empty.first_offset])


def _ops_left(empty: Page, ops: Events, marked: _Marked, known: Known) -> tuple[Events, int]:
    """Return the ops that the first batch has to judge, and how many name a half that is gone.

    An op that agrees with the verdict was accepted, or repeats an accepted one. An op that
    contradicts the verdict and was not refused was never read. An op with unknown changes nothing.
    """
    at = ops.offset - empty.first_offset
    phase, said = marked.phase[at], ops.detail
    says_commit = said == TRANSACTION_COMMIT_TYPE
    says_rollback = said == TRANSACTION_ROLLBACK_TYPE
    gone = (phase == 0) & (ops.offset < known.first_offset)
    says_something = says_commit | says_rollback
    # A half that a relay delivered is not lost, where no mark says it.
    left = (says_something | is_delivered(said)) & ~_agrees(ops, phase) & ~gone
    return ops.take(left), int(np.count_nonzero(says_something & gone))


def _malformed(empty: Page, events: Events, marked: _Marked) -> tuple[Events, Events]:
    """Return the malformed halves and ops that were not refused yet.

    A half with a verdict was accepted once, by rules of access control that have changed since.
    """
    halves = events.of_kind(EventKind.REFUSED_HALF)
    at = halves.offset - empty.first_offset
    is_judged = marked.refused[at] | (marked.phase[at] != 0)
    return halves.take(~is_judged), events.of_kind(EventKind.REFUSED_OP)


def _remembered(marked: _Marked, contradicted: Ints, now_ms: int, rules: Rules) -> SettledOffsets:
    """Return the verdicts to remember; the retention of one that an op contradicts begins now."""
    settled_ms = marked.settled_ms.copy()
    settled_ms[contradicted] = now_ms
    times, forget_slot = np.unique(settled_ms, return_inverse=True)
    forget_at = np.array([forget_at_ms(int(one), rules.verdict_retention_ms) for one in times])
    verdict = np.where(forget_at[forget_slot] >= now_ms, marked.phase, np.uint8(0)).astype(np.uint8)
    kept, forget_slot = np.unique(forget_at[forget_slot][verdict != 0], return_inverse=True)
    forget_slots = np.zeros(len(verdict), np.uint16)
    forget_slots[verdict != 0] = forget_slot
    return SettledOffsets(verdict, forget_slots, kept.astype(np.int64))


def _pending(
    page: Page, halves: Events, marked: _Marked, now_ms: int, rules: Rules
) -> PendingHalves:
    """Return the pending halves as the rules accept them, with the checks made since then."""
    # Pending halves were accepted once; a rule that now refuses new halves does not concern them.
    quietly = replace(rules, reject_transactions=False, check_enabled=False)
    found = decide(page, halves, now_ms, quietly).page.halves
    asked_ms = marked.asked_ms[found.index]
    deadline_ms = np.where(asked_ms > 0, asked_ms + rules.check_interval_ms, found.deadline_ms)
    times = marked.check_times[found.index]
    return replace(found, deadline_ms=deadline_ms, check_times=times)


def _checks_given_back(
    empty: Page, pending: PendingHalves, marked: _Marked, events: Events
) -> PendingHalves:
    """Take back the last check of the halves whose last request found no topic.

    A check number is given again after it was taken back. So if there are as many feedbacks as
    requests with the highest number, the last request was taken back, too.
    """
    feedback = events.of_kind(EventKind.UNDELIVERED)
    index = feedback.offset - empty.first_offset
    given_back = np.zeros(len(marked.phase), np.int64)
    np.add.at(given_back, index[feedback.detail == marked.check_times[index]], 1)
    last_undelivered = (marked.check_times > 0) & (given_back >= marked.same_check)
    times = pending.check_times - last_undelivered[pending.index]
    return replace(pending, check_times=times)
