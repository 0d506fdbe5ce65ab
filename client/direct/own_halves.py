"""Which sessions are this process's own, and how far each of their halves is. Pure but for a lock.

Every step of a half is taken here. Two threads may want to end a half: the lane that delivers it,
and the thread that answers its check. Exactly one of them does.
"""

from __future__ import annotations

import threading
import weakref
from typing import Final

from checkback.client.direct.direct_half import DirectHalf, HalfState

SESSIONS_MAX: Final = 100_000
"""Beyond this number the oldest session id is dropped. A check for one of its halves is then
answered as by any other process: after a fence, which changes nothing for a session that is
over."""


class OwnHalves:
    """The direct halves of one producer. Threads may share it.

    A half is known as long as somebody works on it. If its session is known and the half is not,
    the half has ended: it can't be delivered directly any more.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may shut the producer down
        self._sessions: dict[str, None] = {}
        self._halves: weakref.WeakValueDictionary[str, DirectHalf] = weakref.WeakValueDictionary()

    def owns(self, session_id: str) -> bool:
        """Tell whether that session is, or was, this producer's."""
        return session_id in self._sessions

    def add_session(self, session_id: str) -> None:
        """Note a session before it is opened."""
        with self._lock:
            self._sessions[session_id] = None
            while len(self._sessions) > SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]

    def add(self, half: DirectHalf) -> None:
        """Note a half before it is sent."""
        self._halves[half.transaction_id] = half

    def rename(self, half: DirectHalf, transaction_id: str) -> None:
        """Note that a half is tried under another transaction id."""
        self._halves.pop(half.transaction_id, None)
        half.transaction_id = transaction_id
        self._halves[transaction_id] = half

    def find(self, transaction_id: str) -> DirectHalf | None:
        """Return a half that somebody works on, else None."""
        return self._halves.get(transaction_id)

    def queue(self, half: DirectHalf) -> bool:
        """Note that a half waits for a Kafka transaction; return False if it was closed before."""
        return self._step(half, (HalfState.RUNNING,), HalfState.QUEUED)

    def take(self, half: DirectHalf) -> bool:
        """Note that a half goes into a Kafka transaction; return False if it was closed before."""
        return self._step(half, (HalfState.QUEUED,), HalfState.IN_TRANSACTION)

    def close(self, half: DirectHalf) -> bool:
        """Rule out that a half is delivered directly; False if it may be delivered already."""
        before = (HalfState.RUNNING, HalfState.QUEUED, HalfState.CLOSED)
        return self._step(half, before, HalfState.CLOSED)

    def end(self, half: DirectHalf, *, delivered: bool) -> None:
        """Note how a half's Kafka transaction ended; an unknown end counts as not delivered."""
        half.state = HalfState.DELIVERED if delivered else HalfState.CLOSED

    def _step(self, half: DirectHalf, before: tuple[HalfState, ...], after: HalfState) -> bool:
        with self._lock:
            if half.state not in before:
                return False
            half.state = after
            return True
