"""Which checks of a batch are looked up, where there is no time for all of them.

The sink looks the half of each check up by its offset. Halves that stand far apart cost a seek
each, and everybody's finals wait for the whole batch. So check requests have a share of the time;
those that it leaves over wait for the next check interval, and do not count until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkback.sinks.plan import Lookup

BATCH_S: Final = 2.0
"""How long a state partition looks halves of checks up in one batch."""
AT_ONCE: Final = 64
"""Halves that are looked up between two looks at the clock."""


@dataclass(slots=True)
class CheckTurns:
    """Deals the time for check requests out, in turn; kept from batch to batch.

    Args:
        clock_s: a clock that is never set.
    """

    clock_s: Callable[[], float] = lambda: time.monotonic()
    _first: tuple[int, int] | None = None

    def of(self, checks: Sequence[Lookup]) -> Iterator[tuple[Lookup, bool]]:
        """Yield the checks in pieces, each with whether there is time to look it up.

        The first piece is the one that the last batch had no time for, so that halves for which
        nobody can be asked do not keep the others from their turn.

        Args:
            checks: at most one look-up for each half partition, ascending.
        """
        until_s = self.clock_s() + BATCH_S
        pieces = _pieces(_beginning_at(checks, self._first))
        self._first = None
        for piece in pieces:
            is_in_time = self.clock_s() < until_s
            if not is_in_time and self._first is None:
                self._first = piece.partition, int(piece.offset[0])
            yield piece, is_in_time


def _beginning_at(checks: Sequence[Lookup], first: tuple[int, int] | None) -> list[Lookup]:
    """Return the checks from that half partition and offset on, then those before it."""
    if first is None:
        return list(checks)
    partition, offset = first
    there = [one for one in checks if one.partition == partition]
    return [
        *(one.only(one.offset >= offset) for one in there),
        *(one for one in checks if one.partition > partition),
        *(one for one in checks if one.partition < partition),
        *(one.only(one.offset < offset) for one in there),
    ]


def _pieces(checks: Sequence[Lookup]) -> Iterator[Lookup]:
    for one in checks:
        for begin in range(0, len(one.offset), AT_ONCE):
            yield Lookup(
                one.partition,
                one.offset[begin : begin + AT_ONCE],
                one.action[begin : begin + AT_ONCE],
                one.detail[begin : begin + AT_ONCE],
                one.identity[begin : begin + AT_ONCE],
            )
