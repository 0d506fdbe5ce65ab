"""Transactions for a job with access control: who signs half and ops, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Final

from tests.fuzz.halves import HalfMaker
from tests.fuzz.records import (
    NOWHERE,
    UNSETTLED,
    Expected,
    Fate,
    Moment,
    Record,
    Said,
    Transaction,
    Trust,
    refused,
)
from tests.fuzz.signing import is_in_order
from tests.fuzz.talks import COMMIT, OP_OF_NO_HALF, ROLLBACK, UNKNOWN

from checkback.protocol.refusals import RefusedReason as Reason

ATTACKED_SHARE: Final = 0.4
MANNERS: Final = (
    (Trust.BELIEVED, Trust.BELIEVED),
    (Trust.BELIEVED, Trust.BELIEVED),
    (Trust.BELIEVED, Trust.DISTRUSTED),
    (Trust.DISTRUSTED, Trust.BELIEVED),
    (Trust.DISTRUSTED, Trust.DISTRUSTED),
)
"""How far a half is trusted, and what is said of it."""
MOMENTS: Final = (Moment.BEFORE_HALF, Moment.AFTER)
DELIVERED: Final = b"9"
"""A state that is reserved: an op that says it is refused."""


class Trusting:
    """Makes transactions, and says of each record how far it is trusted.

    Args:
        chance: where all that is random comes from.
        halves: makes the transactions as they are without access control.
    """

    def __init__(self, chance: Random, halves: HalfMaker) -> None:
        self.chance = chance
        self.halves = halves

    def healthy(self) -> Transaction:
        """Return a transaction that has to be final in time."""
        made = self.halves.healthy()
        made.half.trust = Trust.OWNER
        made.said = [
            replace(one, trust=Trust.OWNER) if one.group is one.transaction_id is None else one
            for one in made.said
        ]
        self._attack(made)
        return made

    def wild(self) -> Transaction:
        """Return any other transaction."""
        chance = self.chance
        made = self.halves.wild()
        of_half, of_ops = chance.choice(MANNERS)
        made.half.trust = of_half
        is_taken = is_in_order(made.half) and of_half is Trust.BELIEVED
        if of_ops is Trust.DISTRUSTED:
            made.said = [replace(one, trust=of_ops) for one in made.said]
            if is_taken and not is_refused_at_sight(made.half.expected):
                made.half.expected = UNSETTLED
        elif not is_taken:
            made.said = [replace(one, expected=OP_OF_NO_HALF) for one in made.said]
        self._attack(made)
        return made

    def share_out(self, strays: Iterable[Record]) -> None:
        """Have some records that belong to no transaction signed, and others not."""
        for one in strays:
            one.trust = self.chance.choice((Trust.BELIEVED, Trust.DISTRUSTED))

    def _attack(self, made: Transaction) -> None:
        """Say of the half what nobody may believe, and what access control lets nobody say."""
        chance = self.chance
        if chance.random() > ATTACKED_SHARE:
            return
        moment = chance.choice(MOMENTS)
        state = chance.choice((COMMIT, ROLLBACK, ROLLBACK, UNKNOWN))
        forged = Said(state, NOWHERE, moment, trust=Trust.DISTRUSTED)
        delivered = Said(DELIVERED, refused(Reason.OP_STATE_UNKNOWN), moment)
        made.said.insert(
            chance.randint(0, len(made.said)), chance.choice((forged, forged, delivered))
        )


def is_refused_at_sight(expected: Expected) -> bool:
    """Tell whether a half is refused before anything is said of it."""
    reasons = {Reason[name] for name in expected.reasons}
    is_certain = bool(reasons) and expected.fates == {Fate.REFUSED}
    return is_certain and all(one < Reason.OP_OFFSET_UNREADABLE for one in reasons)
