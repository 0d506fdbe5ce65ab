"""A half message, from its creation to its place on the half topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from checkback.client.message import Message
from checkback.client.results import SendStatus
from checkback.protocol.properties import HALF_PROTOCOL_ORDER, UNIQ_KEY, Headers

ID_AT: Final = HALF_PROTOCOL_ORDER.index(UNIQ_KEY)


class Half:
    """A half message on its way, and where it is stored in the end.

    Body and transaction id are copies: the listener gets the message and may change it.

    Args:
        message: a copy of the sender's message, with its transaction id.
        headers: the record's headers, the transaction id at its place in protocol order.
        new_id: makes another transaction id.
    """

    partition = -1
    offset = -1
    signed_at_ms: float | None = None
    """The time in its last signature; None where halves are not signed."""
    status = SendStatus.SEND_OK

    def __init__(
        self,
        message: Message,
        key: bytes | None,
        headers: Headers,
        new_id: Callable[[], str],
        budget_s: float,
    ) -> None:
        self.message = message
        self.body = message.body
        self.transaction_id = message.transaction_id
        self.key = key
        self.headers = headers
        self.new_id = new_id
        self.deadline_s = time.monotonic() + budget_s

    def left_s(self) -> float:
        """Return the time that is left for its tries."""
        return max(0.0, self.deadline_s - time.monotonic())

    def rename(self) -> None:
        """Give it another transaction id."""
        transaction_id = self.new_id()
        self.transaction_id = self.message.transaction_id = transaction_id
        self.headers = list(self.headers)
        self.headers[ID_AT] = (UNIQ_KEY, transaction_id.encode())


IN_DOUBT_MAX: Final = 100_000
"""Beyond this the oldest id is dropped; its check goes to the listener, as after a restart."""


class InDoubtIds:
    """A set of transaction ids that forgets the oldest. Threads may share it."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()

    def add(self, transaction_id: str) -> None:
        """Note a half that may or may not be stored."""
        with self._lock:
            self._ids[transaction_id] = None
            while len(self._ids) > IN_DOUBT_MAX:
                del self._ids[next(iter(self._ids))]

    def __contains__(self, transaction_id: object) -> bool:
        return transaction_id in self._ids
