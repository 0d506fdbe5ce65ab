"""The ids of halves of which this process does not know whether they are stored.

Their local transactions did not run and never will. So when a check asks for one, the client
answers rollback itself; the application is not asked about a transaction that it never saw.
"""

from __future__ import annotations

import threading
from typing import Final

HELD_MAX: Final = 100_000
"""What is beyond that is asked of the listener, as after a restart."""


class Doubts:
    """A set of transaction ids that forgets the oldest. Threads may share it."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()

    def add(self, transaction_id: str) -> None:
        """Note that nobody knows whether that half is stored."""
        with self._lock:
            self._ids[transaction_id] = None
            while len(self._ids) > HELD_MAX:
                del self._ids[next(iter(self._ids))]

    def __contains__(self, transaction_id: object) -> bool:
        return transaction_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)
