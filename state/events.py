"""What comes into a page: records of the half and op topics, as columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.refusals import RefusedReason
from checkback.state.columns import Columns


class EventKind(IntEnum):
    """Which record it was."""

    HALF = 1
    OP = 2
    UNDELIVERED = 3
    REFUSED_HALF = 4
    REFUSED_OP = 5
    FENCED = 6
    """Feedback of the sink: the session that might deliver the half is fenced."""
    DIRECT_HALF = 7
    """A half that a session of its producer may deliver itself."""


NO_IMMUNITY: Final = -1
"""The detail of a half without an immunity time."""
CLOSED: Final = 16
"""Added to the detail of an op that says that nothing direct can follow it."""
DIRECT_SOURCE: Final = 2**62
"""Added to the offset of a record that stands on the direct op topic. Partitions and offsets of
the two op topics are alike, and whoever looks an op up has to know on which it stands."""


@dataclass(frozen=True, slots=True)
class Events(Columns):
    """The records of one page in one batch, one row each, in any order.

    Args:
        kind: uint8[n], EventKind.
        offset: int64[n], offset of the half; of a REFUSED_OP its own.
        time_ms: int64[n], the broker's time of the record.
        identity: int64[n], the first word of the identity (state/identity.py).
        detail: int64[n]. HALF, DIRECT_HALF: immunity time in ms, or NO_IMMUNITY. OP: 0 unknown,
            8 commit, 9 delivered, 12 rollback; with CLOSED added where nothing direct can follow.
            UNDELIVERED: check times of the request that found no topic. REFUSED_HALF, REFUSED_OP:
            RefusedReason. FENCED: nothing; the first word of the identity is what it says.
        source_offset: int64[n], offset of the record in its own topic, with DIRECT_SOURCE added on
            the direct op topic.
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

    @classmethod
    def concat(cls, *parts: Events) -> Events:
        """Return the rows of all parts, in their order."""
        return Events.joined(Events.empty(), *parts)

    def with_refused_ops(self, chosen: NDArray[np.bool_], reason: RefusedReason) -> Events:
        """Return the rows, the chosen ops among them refused for that reason."""
        return replace(
            self,
            kind=np.where(chosen, np.uint8(EventKind.REFUSED_OP), self.kind),
            offset=np.where(chosen, self.source_offset, self.offset),
            detail=np.where(chosen, np.int64(reason), self.detail),
        )

    def of_kind(self, *kinds: EventKind) -> Events:
        """Return the rows of these kinds, ascending by the records' own offsets."""
        rows = np.flatnonzero(reduce(or_, (self.kind == kind for kind in kinds)))
        if not len(rows):
            return Events.empty()
        source = self.source_offset[rows]
        if np.any(source[1:] < source[:-1]):
            rows = rows[np.argsort(source, kind="stable")]
        elif len(rows) == len(self):
            return self
        return self.take(rows)
