"""Commits, rollbacks and unknowns: checked against the half they name, then taken or refused.

The identity of an op is checked while that of its half is known: until the end of the batch that
settles the half. A settled offset keeps two bits only, so a later op with a wrong identity is
judged by what it says: as a repeat when it agrees with the verdict, else as a contradiction.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.properties import TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE
from checkback.state.draft import Draft, Ints
from checkback.state.events import GROUP_SHIFT, Events
from checkback.state.outcome import Action
from checkback.state.page import WaitingOps
from checkback.state.transitions import EFFECT, NEXT_PHASE, REASON, Effect, Event, Phase

WAITING_OPS_PER_OFFSET_MAX: Final = 4
"""Ops that may wait for one half. A bound, so that garbage can't grow a page without end, and one
that is the same for every page size. A commit that is lost by it is asked for by a check."""

Bytes = NDArray[np.uint8]


def take_ops(draft: Draft, arrived: Events) -> None:
    """Take in the ops of a batch, after those that waited and whose half has come."""
    if len(draft.waiting):
        _release_waiting(draft)
    if len(arrived):
        _take(draft, _as_ops(draft, arrived))


def _release_waiting(draft: Draft) -> None:
    has_come = draft.phase[draft.waiting.index] != Phase.ABSENT
    if has_come.any():
        released = draft.waiting.take(has_come)
        draft.waiting = draft.waiting.take(~has_come)
        _take(draft, released)


def _as_ops(draft: Draft, arrived: Events) -> WaitingOps:
    """Return the ops in the form in which they might have to wait.

    An op waits from when it was read, by whichever clock is ahead: after an outage, ops may be read
    long after they were written and still before their halves.
    """
    wait_until = np.maximum(arrived.time_ms, draft.now_ms) + draft.rules.verdict_memory_ms
    index = draft.index_of(arrived.offset)
    return WaitingOps(index, arrived.source_offset, wait_until, arrived.identity, arrived.detail)


def _take(draft: Draft, ops: WaitingOps) -> None:
    rows = draft.half_row_of()[ops.index]
    event = _events_of(draft, ops, rows)
    phase, deciding = _phases_met(draft, ops.index, event)
    effect = EFFECT[phase, event]
    waits = np.flatnonzero(effect == Effect.WAIT)
    if len(waits):
        over = waits[~_let_wait(draft, ops.take(waits))]
        event[over] = Event.WAIT_OVER
        effect[over] = EFFECT[Phase.ABSENT, Event.WAIT_OVER]
    draft.count(effect)
    _give_verdicts(draft, rows[deciding], event[deciding])
    _refuse(draft, ops, effect, REASON[phase, event])


def _events_of(draft: Draft, ops: WaitingOps, rows: NDArray[np.int32]) -> Bytes:
    """Return uint8[n], the table's event for each op, given the rows of their halves or -1."""
    says_commit = ops.state == TRANSACTION_COMMIT_TYPE
    says_rollback = ops.state == TRANSACTION_ROLLBACK_TYPE
    event = np.full(len(ops), Event.UNKNOWN, np.uint8)
    event[says_commit] = Event.COMMIT
    event[says_rollback] = Event.ROLLBACK
    if not len(draft.halves):
        return event
    difference = ops.identity ^ draft.halves.identity[rows]
    is_wrong = (difference != 0) & (rows >= 0) & (event != Event.UNKNOWN)
    if is_wrong.any():
        same_group = (difference >> GROUP_SHIFT) == 0
        event[is_wrong & same_group] = Event.OP_TRANSACTION_ID_WRONG
        event[is_wrong & ~same_group] = Event.OP_GROUP_WRONG
    return event


def _phases_met(draft: Draft, index: Ints, event: Bytes) -> tuple[Bytes, NDArray[np.intp]]:
    """Return the phase that each op meets its half in, and the positions of those that decide.

    The first commit or rollback of a pending half decides; the later ones meet its verdict.
    """
    phase = draft.phase[index]
    verdicts = (event == Event.COMMIT) | (event == Event.ROLLBACK)
    candidates = np.flatnonzero((phase == Phase.PENDING) & verdicts)
    first = np.empty(draft.page.page_size, np.intp)
    # Of several values for one place the last written stays, so writing backwards keeps the first.
    backwards = candidates[::-1]
    first[index[backwards]] = backwards
    first_of_each = first[index[candidates]]
    is_first = first_of_each == candidates
    later = ~is_first
    if later.any():
        phase[candidates[later]] = NEXT_PHASE[Phase.PENDING, event[first_of_each[later]]]
    return phase, candidates[is_first]


def _let_wait(draft: Draft, ops: WaitingOps) -> NDArray[np.bool_]:
    """Let the ops wait for their halves; return bool[n], false where too many wait already."""
    waiting = np.bincount(draft.waiting.index, minlength=draft.page.page_size).tolist()
    fits = np.ones(len(ops), np.bool_)
    for position, index in enumerate(ops.index.tolist()):
        fits[position] = waiting[index] < WAITING_OPS_PER_OFFSET_MAX
        waiting[index] += 1
    draft.waiting = WaitingOps.joined(draft.waiting, ops.take(fits))
    return fits


def _give_verdicts(draft: Draft, rows: NDArray[np.int32], event: Bytes) -> None:
    if not len(rows):
        return
    event_of_row = np.full(len(draft.halves), Event.UNKNOWN, np.uint8)
    event_of_row[rows] = event
    in_order = np.flatnonzero(event_of_row != Event.UNKNOWN)
    event = event_of_row[in_order]
    draft.settle(in_order, NEXT_PHASE[Phase.PENDING, event])
    action = np.where(event == Event.COMMIT, np.uint8(Action.COMMIT), np.uint8(Action.ROLLBACK))
    draft.act(action, draft.halves.index[in_order] + draft.page.first_offset, 0)


def _refuse(draft: Draft, ops: WaitingOps, effect: Bytes, reason: Bytes) -> None:
    refused = np.flatnonzero((effect == Effect.REFUSE_OP) | (effect == Effect.EXPIRE_OP))
    if len(refused):
        ops = ops.take(refused)
        offset = ops.index + draft.page.first_offset
        draft.act(Action.REFUSE_OP, offset, reason[refused], ops.source_offset)
        draft.count_refusals(int(np.count_nonzero(effect == Effect.EXPIRE_OP)))


def expire_waiting_ops(draft: Draft) -> None:
    """Refuse the ops whose half did not come in time: settled long ago, or never to come."""
    if not len(draft.waiting):
        return
    is_over = draft.now_ms > draft.waiting.wait_until_ms
    if not is_over.any():
        return
    expired = draft.waiting.take(is_over)
    draft.waiting = draft.waiting.take(~is_over)
    pair = (Phase.ABSENT, Event.WAIT_OVER)
    effect = np.full(len(expired), EFFECT[pair], np.uint8)
    draft.count(effect)
    _refuse(draft, expired, effect, np.full(len(expired), REASON[pair], np.uint8))
