"""Commits, rollbacks and unknowns: checked against the half they name, then taken or refused.

The identity of an op is checked while that of its half is known: until the end of the batch that
settles the half. A settled offset keeps two bits only, so a later op with a wrong identity is
judged by what it says: as a repeat when it agrees with the verdict, else as a contradiction.

A delivered op says that a relay has written the final message. So it waits as long as a half
may be pending, and only a page that keeps more of them than any has halves refuses it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.properties import (
    OP_STATES,
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_DELIVERED,
    TRANSACTION_ROLLBACK_TYPE,
)
from checkback.state.formats.events import Events
from checkback.state.formats.identity import group_part
from checkback.state.formats.outcome import Action
from checkback.state.page.page import PAGE_SIZE_MAX, WaitingOps
from checkback.state.page.page_builder import Ints, PageBuilder
from checkback.state.transitions import ACTION, NEXT_PHASE, REASON, Event, Phase

WAITING_OPS_PER_OFFSET_MAX: Final = 4
"""Ops that may wait for one half. A bound, so that garbage can't grow a page without end, and one
that is the same for every page size. A check later recovers a commit that this bound drops."""

DELIVERED_OPS_WAITING_MAX: Final = PAGE_SIZE_MAX
"""Delivered ops that may wait in one page. A half has one, so more of them are forged. Spark hands
a page's state to Python again with every 10,000 of its events, and takes 2 GB for a page: with 20
MB of forged ops in the state, a batch with a million more could never be carried out."""

Bytes = NDArray[np.uint8]

_EVENT_OF: Final = np.full(max(OP_STATES) + 1, Event.UNKNOWN, np.uint8)
_EVENT_OF[TRANSACTION_COMMIT_TYPE] = Event.COMMIT
_EVENT_OF[TRANSACTION_ROLLBACK_TYPE] = Event.ROLLBACK
_EVENT_OF[TRANSACTION_DELIVERED] = Event.DELIVERED
IS_VERDICT: Final = np.isin(np.arange(len(Event)), (Event.COMMIT, Event.ROLLBACK, Event.DELIVERED))


def take_ops(builder: PageBuilder, arrived: Events) -> None:
    """Take in the ops of a batch, after the waiting ones that have their half now."""
    if len(builder.waiting):
        _release_waiting(builder)
    if len(arrived):
        ops = _as_ops(builder, arrived)
        if builder.relay.taken:
            ops = _without_too_early(builder, ops)
        _take(builder, ops)


def refuse_waiting_too_early(builder: PageBuilder) -> None:
    """Refuse the waiting ops that may decide nothing once relays take the ops (rule 9)."""
    if len(builder.waiting):
        builder.waiting = _without_too_early(builder, builder.waiting)


def _without_too_early(builder: PageBuilder, ops: WaitingOps) -> WaitingOps:
    halves = ops.index + builder.page.first_offset
    is_early = builder.relay.come_too_early(ops.source_offset, halves)
    if not is_early.any():
        return ops
    _refuse_without_half(builder, ops.take(is_early))
    return ops.take(~is_early)


def _release_waiting(builder: PageBuilder) -> None:
    has_come = builder.phase[builder.waiting.index] != Phase.ABSENT
    if has_come.any():
        released = builder.waiting.take(has_come)
        builder.waiting = builder.waiting.take(~has_come)
        _take(builder, released)


def _as_ops(builder: PageBuilder, arrived: Events) -> WaitingOps:
    """Return the ops as rows of WaitingOps.

    An op waits from when it was read, by whichever clock is ahead: after an outage, ops may be read
    long after they were written and still before their halves.
    """
    rules, delivered = builder.rules, is_delivered(arrived.detail)
    wait_ms = np.where(delivered, rules.half_retention_ms, rules.verdict_retention_ms)
    wait_until = np.maximum(arrived.time_ms, builder.now_ms) + wait_ms
    index = builder.index_of(arrived.offset)
    return WaitingOps(
        index,
        arrived.source_offset,
        wait_until,
        arrived.identity,
        arrived.detail,
        arrived.identity_rest,
    )


def is_delivered(state: Ints) -> NDArray[np.bool_]:
    """Return bool[n], which ops say that the final message is already written.

    Args:
        state: int64[n], what the ops say, as Events has it.
    """
    delivered: NDArray[np.bool_] = _EVENT_OF[state] == Event.DELIVERED
    return delivered


def _take(builder: PageBuilder, ops: WaitingOps) -> None:
    rows = builder.half_row_of()[ops.index]
    event = _events_of(builder, ops, rows)
    phase, deciding = _phases_met(builder, ops.index, event)
    waits = np.flatnonzero((phase == Phase.ABSENT) & IS_VERDICT[event])
    if len(waits):
        event[waits[~_let_wait(builder, ops.take(waits))]] = Event.WAIT_OVER
    _give_verdicts(builder, rows[deciding], event[deciding])
    is_left = np.ones(len(ops), np.bool_)
    is_left[deciding] = False
    _count_and_refuse(builder, ops.take(is_left), phase[is_left], event[is_left])


def _events_of(builder: PageBuilder, ops: WaitingOps, rows: NDArray[np.int32]) -> Bytes:
    """Return uint8[n], the table's event for each op, given the rows of their halves or -1."""
    event = _EVENT_OF[ops.state]
    if not len(builder.halves):
        return event
    is_wrong = ops.identity != builder.halves.identity[rows]
    is_wrong |= ops.identity_rest != builder.halves.identity_rest[rows]
    is_wrong &= (rows >= 0) & (event != Event.UNKNOWN)
    if is_wrong.any():
        difference = ops.identity ^ builder.halves.identity[rows]
        same_group = group_part(difference) == 0
        event[is_wrong & same_group] = Event.OP_TRANSACTION_ID_WRONG
        event[is_wrong & ~same_group] = Event.OP_GROUP_WRONG
    return event


def _phases_met(builder: PageBuilder, index: Ints, event: Bytes) -> tuple[Bytes, NDArray[np.intp]]:
    """Return the phase that each op meets its half in, and the positions of those that decide.

    The first verdict on a pending half decides; the later ones meet its verdict.
    """
    phase = builder.phase[index]
    candidates = np.flatnonzero((phase == Phase.PENDING) & IS_VERDICT[event])
    first = np.empty(builder.page.page_size, np.intp)
    # Of several values for one place the last written stays, so writing backwards keeps the first.
    backwards = candidates[::-1]
    first[index[backwards]] = backwards
    first_of_each = first[index[candidates]]
    is_first = first_of_each == candidates
    later = ~is_first
    if later.any():
        phase[candidates[later]] = NEXT_PHASE[Phase.PENDING, event[first_of_each[later]]]
    return phase, candidates[is_first]


def _let_wait(builder: PageBuilder, ops: WaitingOps) -> NDArray[np.bool_]:
    """Let the ops wait for their halves; return bool[n], false where too many wait already."""
    waits = is_delivered(builder.waiting.state)
    of_others = builder.waiting.index[~waits]
    waiting = np.bincount(of_others, minlength=builder.page.page_size).tolist()
    delivered = is_delivered(ops.state)
    room = DELIVERED_OPS_WAITING_MAX - np.count_nonzero(waits)
    fits = delivered & (np.cumsum(delivered) <= room)
    for position in np.flatnonzero(~delivered).tolist():
        index = ops.index[position]
        fits[position] = waiting[index] < WAITING_OPS_PER_OFFSET_MAX
        waiting[index] += 1
    builder.waiting = WaitingOps.joined(builder.waiting, ops.take(fits))
    return fits


def _give_verdicts(builder: PageBuilder, rows: NDArray[np.int32], event: Bytes) -> None:
    if not len(rows):
        return
    event_of_row = np.full(len(builder.halves), Event.UNKNOWN, np.uint8)
    event_of_row[rows] = event
    in_order = np.flatnonzero(event_of_row != Event.UNKNOWN)
    builder.count_finished(in_order)
    builder.apply(event_of_row[in_order], in_order)


def _count_and_refuse(
    builder: PageBuilder, ops: WaitingOps, phase: Bytes | Phase, event: Bytes
) -> None:
    builder.count(phase, event)
    is_refused = (ACTION[phase, event] == Action.REFUSE_OP) & (ops.source_offset >= 0)
    if is_refused.any():
        reason = REASON[phase, event][is_refused]
        ops = ops.take(is_refused)
        offset = ops.index + builder.page.first_offset
        builder.act(Action.REFUSE_OP, offset, reason, ops.source_offset)


def expire_waiting_ops(builder: PageBuilder) -> None:
    """Refuse the ops without a half in time: settled long ago, or never to come.

    Not before all halves of that time were read: the half of an op may be in the backlog.
    """
    if not len(builder.waiting):
        return
    is_over = builder.read_until_ms > builder.waiting.wait_until_ms
    if not is_over.any():
        return
    expired = builder.waiting.take(is_over)
    builder.waiting = builder.waiting.take(~is_over)
    _refuse_without_half(builder, expired)


def _refuse_without_half(builder: PageBuilder, ops: WaitingOps) -> None:
    event = np.full(len(ops), Event.WAIT_OVER, np.uint8)
    _count_and_refuse(builder, ops, Phase.ABSENT, event)
