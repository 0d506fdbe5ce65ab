"""The input of a page: records of the half and op topics, as columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.properties import TRANSACTION_DELIVERED
from checkback.state.page.columns import Columns


class EventKind(IntEnum):
    """The kind of a record."""

    HALF = 1
    OP = 2
    UNDELIVERED = 3
    REFUSED_HALF = 4
    REFUSED_OP = 5


NO_IMMUNITY: Final = -1
"""The detail of a half without an immunity time."""

BEFORE_OPS: Final = -(2**62)
"""Added to the offset of an op of the former direct op topic: such ops come before the op topic's,
and no copy of one that is refused is written."""


@dataclass(frozen=True, slots=True)
class Events(Columns):
    """The records of one page in one batch, one row each, in any order.

    Args:
        kind: uint8[n], EventKind.
        offset: int64[n], offset of the half; of a REFUSED_OP its own.
        time_ms: int64[n], the broker's time of the record.
        identity: int64[n], the first word of the identity (state/formats/identity.py).
        detail: int64[n]. HALF: immunity time in ms, or NO_IMMUNITY. OP: 0 unknown, 8 commit,
            9 delivered, 12 rollback. UNDELIVERED: check times of the request that found no topic.
            REFUSED_HALF, REFUSED_OP: RefusedReason.
        source_offset: int64[n], offset of the record in its own topic; see BEFORE_OPS.
        identity_rest: int64[n], the second word of the identity.
    """

    kind: NDArray[np.uint8]
    offset: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    identity: NDArray[np.int64]
    detail: NDArray[np.int64]
    source_offset: NDArray[np.int64]
    identity_rest: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Events:
        """Return no events: what a page gets when only a deadline wakes it."""
        none = np.zeros(0, np.int64)
        return cls(np.zeros(0, np.uint8), none, none, none, none, none, none)

    def of_kind(self, kind: EventKind) -> Events:
        """Return the rows of this kind, ascending by the records' own offsets.

        Of two rows with one offset, a delivered op comes first.
        """
        rows = np.flatnonzero(self.kind == kind)
        if not len(rows):
            return Events.empty()
        source = self.source_offset[rows]
        if np.any(source[1:] <= source[:-1]):
            # An op comes twice where a relay could not know whether its transaction was committed:
            # what it said first, that the op is delivered, counts.
            is_later = self.detail[rows] != TRANSACTION_DELIVERED
            rows = rows[np.lexsort((is_later, source))]
        elif len(rows) == len(self):
            return self
        return self.take(rows)
