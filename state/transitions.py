"""The one table of what may happen to a half offset, and what follows.

The engine looks its arrays up, ARCHITECTURE.md shows it, the tests walk through it. A pair of
phase and event that is not in the table cannot occur; looking it up yields ``IMPOSSIBLE``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.refusals import RefusedReason
from checkback.state.formats.outcome import Action, Counter


class Phase(IntEnum):
    """Where a half offset stands. Verdicts are 1 to 3: two bits of a packed page hold them."""

    ABSENT = 0
    """No half came yet, or its verdict was forgotten."""
    COMMITTED = 1
    ROLLED_BACK = 2
    DISCARDED = 3
    PENDING = 4


class Event(IntEnum):
    """What can happen to a half offset."""

    HALF = 0
    HALF_REJECTED = 1
    """A half that came while ``reject_transactions`` was on."""
    COMMIT = 2
    ROLLBACK = 3
    UNKNOWN = 4
    OP_GROUP_WRONG = 5
    """Commit or rollback by another producer group than the half's."""
    OP_TRANSACTION_ID_WRONG = 6
    CHECK_UNDELIVERED = 7
    """The half's latest check request found no check topic."""
    CHECK_DUE = 8
    """The deadline has passed."""
    CHECKS_USED_UP = 9
    """The deadline has passed after the last check request that ``check_max`` allows."""
    HALF_RETENTION_OVER = 10
    """Older than ``half_retention_ms``."""
    WAIT_OVER = 11
    """An op waited ``verdict_retention_ms`` for its half, or too many wait for the same; a
    delivered op waits for ``half_retention_ms``, if its page has room for it."""
    VERDICT_RETENTION_OVER = 12
    """The verdict was remembered for ``verdict_retention_ms``."""
    DELIVERED = 13
    """An op in the Kafka transaction in which the final message was written."""


class Transition(NamedTuple):
    """The result of an event: the next phase, and what to do and to count.

    Args:
        action: what the sink has to do; None for nothing.
        reason: why a record is refused; None where none is.
    """

    phase: Phase
    does: str
    counters: tuple[Counter, ...] = ()
    action: Action | None = None
    reason: RefusedReason | None = None


_P, _E, _A, _C, _R = Phase, Event, Action, Counter, RefusedReason


def _refused_op(phase: Phase, reason: RefusedReason, *also: Counter) -> Transition:
    return Transition(phase, "refuse op", (_C.REFUSALS, *also), _A.REFUSE_OP, reason)


def _repeated_half(phase: Phase) -> Transition:
    return Transition(phase, "ignore repeated half", (_C.REPEATED_HALVES,))


def _repeated_op(phase: Phase) -> Transition:
    return Transition(phase, "ignore repeated op", (_C.REPEATED_OPS,))


def _unknown(phase: Phase) -> Transition:
    return Transition(phase, "ignore unknown", (_C.UNKNOWN_OPS,))


def _settled(
    phase: Phase, commit: Transition, rollback: Transition, delivered: RefusedReason
) -> dict[tuple[Phase, Event], Transition]:
    """Return what follows once a half has its verdict."""
    return {
        (phase, _E.HALF): _repeated_half(phase),
        (phase, _E.HALF_REJECTED): _repeated_half(phase),
        (phase, _E.COMMIT): commit,
        (phase, _E.ROLLBACK): rollback,
        (phase, _E.UNKNOWN): _unknown(phase),
        (phase, _E.CHECK_UNDELIVERED): Transition(phase, "nothing"),
        (phase, _E.DELIVERED): _refused_op(phase, delivered, _C.DELIVERED_REFUSED),
        (phase, _E.VERDICT_RETENTION_OVER): Transition(_P.ABSENT, "forget"),
    }


def _wrong_identity(phase: Phase) -> dict[tuple[Phase, Event], Transition]:
    return {
        (phase, _E.OP_GROUP_WRONG): _refused_op(phase, _R.OP_GROUP_WRONG),
        (phase, _E.OP_TRANSACTION_ID_WRONG): _refused_op(phase, _R.OP_TRANSACTION_ID_WRONG),
    }


_WAITS: Final = Transition(_P.ABSENT, "wait", (_C.OPS_WAITING,))
TRANSITIONS: Final[dict[tuple[Phase, Event], Transition]] = {
    (_P.ABSENT, _E.HALF): Transition(_P.PENDING, "keep pending", (_C.HALVES,)),
    (_P.ABSENT, _E.HALF_REJECTED): Transition(
        _P.ABSENT, "refuse half", (_C.REFUSALS,), _A.REFUSE_HALF, _R.TRANSACTIONS_REJECTED
    ),
    (_P.ABSENT, _E.COMMIT): _WAITS,
    (_P.ABSENT, _E.ROLLBACK): _WAITS,
    (_P.ABSENT, _E.DELIVERED): _WAITS,
    (_P.ABSENT, _E.UNKNOWN): _unknown(_P.ABSENT),
    (_P.ABSENT, _E.CHECK_UNDELIVERED): Transition(_P.ABSENT, "nothing"),
    (_P.ABSENT, _E.WAIT_OVER): _refused_op(_P.ABSENT, _R.OP_WITHOUT_HALF, _C.OPS_EXPIRED),
    (_P.PENDING, _E.HALF): _repeated_half(_P.PENDING),
    (_P.PENDING, _E.HALF_REJECTED): _repeated_half(_P.PENDING),
    (_P.PENDING, _E.COMMIT): Transition(_P.COMMITTED, "commit", (_C.COMMITS,), _A.COMMIT),
    (_P.PENDING, _E.ROLLBACK): Transition(_P.ROLLED_BACK, "rollback", (_C.ROLLBACKS,), _A.ROLLBACK),
    (_P.PENDING, _E.DELIVERED): Transition(
        _P.COMMITTED, "delivered", (_C.COMMITS, _C.DELIVERED), _A.DELIVERED
    ),
    (_P.PENDING, _E.UNKNOWN): _unknown(_P.PENDING),
    **_wrong_identity(_P.PENDING),
    (_P.PENDING, _E.CHECK_UNDELIVERED): Transition(
        _P.PENDING, "give check back", (_C.CHECKS_UNDELIVERED,)
    ),
    (_P.PENDING, _E.CHECK_DUE): Transition(_P.PENDING, "ask", (_C.CHECKS,), _A.CHECK),
    (_P.PENDING, _E.CHECKS_USED_UP): Transition(
        _P.DISCARDED, "discard check limit", (_C.DISCARDS,), _A.DISCARD_CHECK_LIMIT
    ),
    (_P.PENDING, _E.HALF_RETENTION_OVER): Transition(
        _P.DISCARDED, "discard expired", (_C.DISCARDS,), _A.DISCARD_EXPIRED
    ),
    **_settled(
        _P.COMMITTED,
        _repeated_op(_P.COMMITTED),
        _refused_op(_P.COMMITTED, _R.ROLLBACK_AFTER_COMMIT),
        _R.DELIVERED_AFTER_COMMIT,
    ),
    **_wrong_identity(_P.COMMITTED),
    **_settled(
        _P.ROLLED_BACK,
        _refused_op(_P.ROLLED_BACK, _R.COMMIT_AFTER_ROLLBACK),
        _repeated_op(_P.ROLLED_BACK),
        _R.DELIVERED_AFTER_ROLLBACK,
    ),
    **_wrong_identity(_P.ROLLED_BACK),
    **_settled(
        _P.DISCARDED,
        _refused_op(_P.DISCARDED, _R.COMMIT_AFTER_DISCARD),
        _refused_op(_P.DISCARDED, _R.ROLLBACK_AFTER_DISCARD),
        _R.DELIVERED_AFTER_DISCARD,
    ),
}

IMPOSSIBLE: Final = 255
NO_ACTION: Final = 0


def _lookup_arrays() -> tuple[NDArray[np.uint8], ...]:
    pairs = (len(Phase), len(Event))
    phases = np.full(pairs, IMPOSSIBLE, np.uint8)
    actions, reasons = np.zeros(pairs, np.uint8), np.zeros(pairs, np.uint8)
    counters = np.zeros((*pairs, len(Counter)), np.uint8)
    for pair, transition in TRANSITIONS.items():
        phases[pair] = transition.phase
        actions[pair] = transition.action or NO_ACTION
        reasons[pair] = transition.reason or 0
        counters[pair][list(transition.counters)] = 1
    return phases, actions, reasons, counters


NEXT_PHASE, ACTION, REASON, COUNTERS = _lookup_arrays()
"""The table as uint8[phase, event]: next phases (IMPOSSIBLE where absent), actions (NO_ACTION for
none), reason codes; and what is counted, uint8[phase, event, counter]."""
