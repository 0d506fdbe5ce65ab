"""Halves that come in."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkback.protocol.refusals import RefusedReason
from checkback.state.draft import Draft, Ints
from checkback.state.events import Events
from checkback.state.outcome import Action
from checkback.state.page import PendingHalves
from checkback.state.transitions import EFFECT, NEXT_PHASE, Effect, Event, Phase

IMMUNITY_MS_MAX: Final = 2**53
"""An immunity time may be any whole number; beyond this a deadline would run out of 64 bits."""


def take_halves(draft: Draft, arrived: Events) -> None:
    """Make the halves pending, unless their offset is taken or transactions are rejected."""
    if not len(arrived):
        return
    index = draft.index_of(arrived.offset)
    event = Event.HALF_REJECTED if draft.rules.reject_transactions else Event.HALF
    effect = EFFECT[draft.phase[index], event]
    if event == Event.HALF:
        again = index[1:] == index[:-1]
        effect[1:][again] = EFFECT[Phase.PENDING, event]
    draft.count(effect)
    refused = arrived.offset[effect == Effect.REFUSE_HALF]
    draft.act(Action.REFUSE_HALF, refused, int(RefusedReason.TRANSACTIONS_REJECTED))
    accepted = np.flatnonzero(effect == Effect.KEEP_PENDING)
    if len(accepted):
        _add(draft, index[accepted], arrived.take(accepted))


def _add(draft: Draft, index: Ints, arrived: Events) -> None:
    draft.phase[index] = NEXT_PHASE[Phase.ABSENT, Event.HALF]
    none = np.zeros(len(index), np.int64)
    deadline = arrived.time_ms + _immunity_ms(draft, arrived.detail)
    new = PendingHalves(index, arrived.time_ms, deadline, none, arrived.identity)
    halves = PendingHalves.joined(draft.halves, new) if len(draft.halves) else new
    if len(draft.halves) and draft.halves.index[-1] > index[0]:
        halves = halves.take(np.argsort(halves.index, kind="stable"))
    draft.halves = halves
    draft.is_pending = np.ones(len(halves), np.bool_)
    if draft.tell_prepared:
        draft.act(Action.PREPARED, arrived.offset, 0)


def _immunity_ms(draft: Draft, detail: Ints) -> Ints:
    """Return the age in ms from which each is asked: its own, or the default."""
    own = np.minimum(detail, IMMUNITY_MS_MAX)
    return np.where(detail >= 0, own, draft.rules.transaction_timeout_ms)
