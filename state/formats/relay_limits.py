"""Limits of a page in a partition with ops that relays take or took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_FLOOR = 2**62
"""The floor where no relay takes the ops: any half may be discarded."""


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Limits of one half partition (docs/decisions/relay.md).

    Args:
        taken: for each span of ops that relays took or take, where it begins in the op partition,
            and from which half on a relay may deliver. An op in front of a span decides no half
            from there on: it came before its half, and a relay may have delivered that half.
        floor: no half from this offset on is discarded: a relay may still deliver it.
    """

    taken: tuple[tuple[int, int], ...] = ()
    floor: int = NO_FLOOR

    def come_too_early(
        self, source_offset: NDArray[np.int64], offset: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return bool[n]: the ops that came before their halves and so decide nothing.

        Args:
            source_offset: int64[n], the offsets of the ops in the op partition.
            offset: int64[n], the offsets of the halves that the ops name.
        """
        found = np.zeros(len(offset), np.bool_)
        for ops_from, halves_from in self.taken:
            found |= (source_offset < ops_from) & (offset >= halves_from)
        return found


NO_RELAY = RelayLimits()
