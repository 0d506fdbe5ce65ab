"""Takes in new halves."""

from __future__ import annotations

from typing import Final

import numpy as np

from checkback.state.formats.events import Events
from checkback.state.formats.outcome import Action
from checkback.state.page.page import PendingHalves
from checkback.state.page.page_builder import Ints, PageBuilder
from checkback.state.transitions import ACTION, NEXT_PHASE, REASON, Event, Phase

IMMUNITY_MS_MAX: Final = 2**53
"""An immunity time may be any whole number; beyond this a deadline would run out of 64 bits."""


def take_halves(builder: PageBuilder, arrived: Events) -> None:
    """Make the halves pending, unless their offset is taken or transactions are rejected."""
    if not len(arrived):
        return
    index = builder.index_of(arrived.offset)
    event = Event.HALF_REJECTED if builder.rules.reject_transactions else Event.HALF
    phase = builder.phase[index]
    if event == Event.HALF:
        phase[1:][(index[1:] == index[:-1]) & (phase[:-1] == Phase.ABSENT)] = Phase.PENDING
    builder.count(phase, event)
    refused = arrived.take(ACTION[phase, event] == Action.REFUSE_HALF)
    reason = REASON[Phase.ABSENT, event]
    builder.act(Action.REFUSE_HALF, refused.offset, reason, refused=refused)
    accepted = np.flatnonzero((phase == Phase.ABSENT) & (event == Event.HALF))
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
