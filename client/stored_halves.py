"""Where this process's own halves are stored, to recognise copies of them.

A signed half may be copied to another offset by somebody who can read it. The copy has the id of a
real transaction, so a check for the copy could be answered with that transaction's commit. The
process that sent the half knows that the half has another offset.
"""

from __future__ import annotations

import threading
from typing import Final

HELD_MAX: Final = 100_000


class StoredHalves:
    """Positions by transaction id; forgets the oldest. Threads may share it."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def add(self, transaction_id: str, partition: int, offset: int) -> None:
        """Note where a half was stored."""
        with self._lock:
            self._places[transaction_id] = (partition, offset)
            while len(self._places) > HELD_MAX:
                del self._places[next(iter(self._places))]

    def is_copy(self, transaction_id: str, partition: int, offset: int) -> bool:
        """Tell whether the half of that id is known to have another position."""
        place = self._places.get(transaction_id)
        return place is not None and place != (partition, offset)
