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


class Effect(IntEnum):
    """What follows from an event."""

    NOTHING = 0
    KEEP_PENDING = 1
    IGNORE_REPEATED_HALF = 2
    COMMIT = 3
    ROLLBACK = 4
    IGNORE_UNKNOWN = 5
    IGNORE_REPEATED_OP = 6
    WAIT = 7
    REFUSE_HALF = 8
    REFUSE_OP = 9
    EXPIRE_OP = 10
    GIVE_CHECK_BACK = 11
    ASK = 12
    DISCARD_CHECK_LIMIT = 13
    DISCARD_EXPIRED = 14
    FORGET = 15
    DELIVERED = 16
    REFUSE_DELIVERED = 17


class Transition(NamedTuple):
    """What follows: the next phase, the effect, and the reason code where something is refused."""

    phase: Phase
    effect: Effect
    reason: RefusedReason | None = None


_P, _E, _F, _R = Phase, Event, Effect, RefusedReason

TRANSITIONS: Final[dict[tuple[Phase, Event], Transition]] = {
    (_P.ABSENT, _E.HALF): Transition(_P.PENDING, _F.KEEP_PENDING),
    (_P.ABSENT, _E.HALF_REJECTED): Transition(_P.ABSENT, _F.REFUSE_HALF, _R.TRANSACTIONS_REJECTED),
    (_P.ABSENT, _E.COMMIT): Transition(_P.ABSENT, _F.WAIT),
    (_P.ABSENT, _E.ROLLBACK): Transition(_P.ABSENT, _F.WAIT),
    (_P.ABSENT, _E.UNKNOWN): Transition(_P.ABSENT, _F.IGNORE_UNKNOWN),
    (_P.ABSENT, _E.CHECK_UNDELIVERED): Transition(_P.ABSENT, _F.NOTHING),
    (_P.ABSENT, _E.WAIT_OVER): Transition(_P.ABSENT, _F.EXPIRE_OP, _R.OP_WITHOUT_HALF),
    (_P.ABSENT, _E.DELIVERED): Transition(_P.ABSENT, _F.WAIT),
    (_P.PENDING, _E.HALF): Transition(_P.PENDING, _F.IGNORE_REPEATED_HALF),
    (_P.PENDING, _E.HALF_REJECTED): Transition(_P.PENDING, _F.IGNORE_REPEATED_HALF),
    (_P.PENDING, _E.COMMIT): Transition(_P.COMMITTED, _F.COMMIT),
    (_P.PENDING, _E.ROLLBACK): Transition(_P.ROLLED_BACK, _F.ROLLBACK),
    (_P.PENDING, _E.UNKNOWN): Transition(_P.PENDING, _F.IGNORE_UNKNOWN),
    (_P.PENDING, _E.OP_GROUP_WRONG): Transition(_P.PENDING, _F.REFUSE_OP, _R.OP_GROUP_WRONG),
    (_P.PENDING, _E.OP_TRANSACTION_ID_WRONG): Transition(
        _P.PENDING, _F.REFUSE_OP, _R.OP_TRANSACTION_ID_WRONG
    ),
    (_P.PENDING, _E.CHECK_UNDELIVERED): Transition(_P.PENDING, _F.GIVE_CHECK_BACK),
    (_P.PENDING, _E.CHECK_DUE): Transition(_P.PENDING, _F.ASK),
    (_P.PENDING, _E.CHECKS_USED_UP): Transition(_P.DISCARDED, _F.DISCARD_CHECK_LIMIT),
    (_P.PENDING, _E.HALF_RETENTION_OVER): Transition(_P.DISCARDED, _F.DISCARD_EXPIRED),
    (_P.PENDING, _E.DELIVERED): Transition(_P.COMMITTED, _F.DELIVERED),
    (_P.COMMITTED, _E.HALF): Transition(_P.COMMITTED, _F.IGNORE_REPEATED_HALF),
    (_P.COMMITTED, _E.HALF_REJECTED): Transition(_P.COMMITTED, _F.IGNORE_REPEATED_HALF),
    (_P.COMMITTED, _E.COMMIT): Transition(_P.COMMITTED, _F.IGNORE_REPEATED_OP),
    (_P.COMMITTED, _E.ROLLBACK): Transition(_P.COMMITTED, _F.REFUSE_OP, _R.ROLLBACK_AFTER_COMMIT),
    (_P.COMMITTED, _E.UNKNOWN): Transition(_P.COMMITTED, _F.IGNORE_UNKNOWN),
    (_P.COMMITTED, _E.OP_GROUP_WRONG): Transition(_P.COMMITTED, _F.REFUSE_OP, _R.OP_GROUP_WRONG),
    (_P.COMMITTED, _E.OP_TRANSACTION_ID_WRONG): Transition(
        _P.COMMITTED, _F.REFUSE_OP, _R.OP_TRANSACTION_ID_WRONG
    ),
    (_P.COMMITTED, _E.CHECK_UNDELIVERED): Transition(_P.COMMITTED, _F.NOTHING),
    (_P.COMMITTED, _E.DELIVERED): Transition(
        _P.COMMITTED, _F.REFUSE_DELIVERED, _R.DELIVERED_AFTER_COMMIT
    ),
    (_P.COMMITTED, _E.VERDICT_RETENTION_OVER): Transition(_P.ABSENT, _F.FORGET),
    (_P.ROLLED_BACK, _E.HALF): Transition(_P.ROLLED_BACK, _F.IGNORE_REPEATED_HALF),
    (_P.ROLLED_BACK, _E.HALF_REJECTED): Transition(_P.ROLLED_BACK, _F.IGNORE_REPEATED_HALF),
    (_P.ROLLED_BACK, _E.COMMIT): Transition(_P.ROLLED_BACK, _F.REFUSE_OP, _R.COMMIT_AFTER_ROLLBACK),
    (_P.ROLLED_BACK, _E.ROLLBACK): Transition(_P.ROLLED_BACK, _F.IGNORE_REPEATED_OP),
    (_P.ROLLED_BACK, _E.UNKNOWN): Transition(_P.ROLLED_BACK, _F.IGNORE_UNKNOWN),
    (_P.ROLLED_BACK, _E.OP_GROUP_WRONG): Transition(
        _P.ROLLED_BACK, _F.REFUSE_OP, _R.OP_GROUP_WRONG
    ),
    (_P.ROLLED_BACK, _E.OP_TRANSACTION_ID_WRONG): Transition(
        _P.ROLLED_BACK, _F.REFUSE_OP, _R.OP_TRANSACTION_ID_WRONG
    ),
    (_P.ROLLED_BACK, _E.CHECK_UNDELIVERED): Transition(_P.ROLLED_BACK, _F.NOTHING),
    (_P.ROLLED_BACK, _E.DELIVERED): Transition(
        _P.ROLLED_BACK, _F.REFUSE_DELIVERED, _R.DELIVERED_AFTER_ROLLBACK
    ),
    (_P.ROLLED_BACK, _E.VERDICT_RETENTION_OVER): Transition(_P.ABSENT, _F.FORGET),
    (_P.DISCARDED, _E.HALF): Transition(_P.DISCARDED, _F.IGNORE_REPEATED_HALF),
    (_P.DISCARDED, _E.HALF_REJECTED): Transition(_P.DISCARDED, _F.IGNORE_REPEATED_HALF),
    (_P.DISCARDED, _E.COMMIT): Transition(_P.DISCARDED, _F.REFUSE_OP, _R.COMMIT_AFTER_DISCARD),
    (_P.DISCARDED, _E.ROLLBACK): Transition(_P.DISCARDED, _F.REFUSE_OP, _R.ROLLBACK_AFTER_DISCARD),
    (_P.DISCARDED, _E.UNKNOWN): Transition(_P.DISCARDED, _F.IGNORE_UNKNOWN),
    (_P.DISCARDED, _E.CHECK_UNDELIVERED): Transition(_P.DISCARDED, _F.NOTHING),
    (_P.DISCARDED, _E.DELIVERED): Transition(
        _P.DISCARDED, _F.REFUSE_DELIVERED, _R.DELIVERED_AFTER_DISCARD
    ),
    (_P.DISCARDED, _E.VERDICT_RETENTION_OVER): Transition(_P.ABSENT, _F.FORGET),
}

IMPOSSIBLE: Final = 255


def _lookup_arrays() -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    phases = np.full((len(Phase), len(Event)), IMPOSSIBLE, np.uint8)
    effects = phases.copy()
    reasons = np.zeros_like(phases)
    for pair, transition in TRANSITIONS.items():
        phases[pair] = transition.phase
        effects[pair] = transition.effect
        reasons[pair] = transition.reason or 0
    return phases, effects, reasons


NEXT_PHASE, EFFECT, REASON = _lookup_arrays()
"""The table as uint8[phase, event]: phases and effects (IMPOSSIBLE where absent), reason codes."""
