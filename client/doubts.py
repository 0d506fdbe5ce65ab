"""The ids of halves of which this process could not learn whether Kafka stored them.

Their local transactions did not run and never will. So when a check asks for one, the client
answers rollback itself; the application is not asked about a transaction that it never saw.
"""

from __future__ import annotations

import threading
from typing import Final

HELD_MAX: Final = 100_000
"""Beyond this the oldest id is dropped; its check goes to the listener, as after a restart."""


class Doubts:
    """A set of transaction ids that forgets the oldest. Threads may share it."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()

    def add(self, transaction_id: str) -> None:
        """Note a half that may or may not be stored."""
        with self._lock:
            self._ids[transaction_id] = None
            while len(self._ids) > HELD_MAX:
                del self._ids[next(iter(self._ids))]

    def __contains__(self, transaction_id: object) -> bool:
        return transaction_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)
