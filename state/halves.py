"""Halves that come in."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkback.protocol.refusals import RefusedReason
from checkback.state.events import Events
from checkback.state.outcome import Action
from checkback.state.page import PendingHalves
from checkback.state.page_builder import Ints, PageBuilder
from checkback.state.transitions import EFFECT, NEXT_PHASE, Effect, Event, Phase

IMMUNITY_MS_MAX: Final = 2**53
"""An immunity time may be any whole number; beyond this a deadline would run out of 64 bits."""


def take_halves(builder: PageBuilder, arrived: Events) -> None:
    """Make the halves pending, unless their offset is taken or transactions are rejected."""
    if not len(arrived):
        return
    index = builder.index_of(arrived.offset)
    event = Event.HALF_REJECTED if builder.rules.reject_transactions else Event.HALF
    effect = EFFECT[builder.phase[index], event]
    again = (index[1:] == index[:-1]) & (effect[:-1] == Effect.KEEP_PENDING)
    effect[1:][again] = EFFECT[Phase.PENDING, Event.HALF]
    builder.count(effect)
    refused = arrived.offset[effect == Effect.REFUSE_HALF]
    builder.act(Action.REFUSE_HALF, refused, int(RefusedReason.TRANSACTIONS_REJECTED))
    accepted = np.flatnonzero(effect == Effect.KEEP_PENDING)
    if len(accepted):
        _add(builder, index[accepted], arrived.take(accepted))


def _add(builder: PageBuilder, index: Ints, arrived: Events) -> None:
    builder.phase[index] = NEXT_PHASE[Phase.ABSENT, Event.HALF]
    none = np.zeros(len(index), np.int64)
    deadline = arrived.time_ms + _immunity_ms(builder, arrived.detail)
    new = PendingHalves(
        index, arrived.time_ms, deadline, none, arrived.identity, arrived.identity_rest
    )
    halves = PendingHalves.joined(builder.halves, new) if len(builder.halves) else new
    if len(builder.halves) and builder.halves.index[-1] > index[0]:
        halves = halves.take(np.argsort(halves.index, kind="stable"))
    builder.halves = halves
    builder.is_pending = np.ones(len(halves), np.bool_)
    if builder.tell_prepared:
        builder.act(Action.PREPARED, arrived.offset, 0)


def _immunity_ms(builder: PageBuilder, detail: Ints) -> Ints:
    """Return the age in ms from which each is asked: its own, or the default."""
    own = np.minimum(detail, IMMUNITY_MS_MAX)
    return np.where(detail >= 0, own, builder.rules.transaction_timeout_ms)
