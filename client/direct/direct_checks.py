"""Before the answer to a check of a direct half: makes sure that no delivery can contradict it.

The session's owner knows what it handed to Kafka, and never fences. Another process that answers
fences the session first, but only to give a verdict: "unknown" leaves everything as it is.
"""

from __future__ import annotations

from typing import Final

from checkback.client.callback_result import CallbackResult
from checkback.client.direct.direct_half import HalfState
from checkback.client.direct.fences import Fences
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.listener import LocalTransactionState
from checkback.client.message import MessageExt

NEVER: Final = CallbackResult(
    LocalTransactionState.UNKNOW,
    "its DIRECT_ID is not the id of a session of its producer group; nobody may fence that",
)
COMMITTED: Final = CallbackResult(LocalTransactionState.COMMIT_MESSAGE)


class DirectChecks:
    """Closes direct halves before an answer to their check is sent. Threads may share it.

    Args:
        own: this process's sessions and halves.
        fences: fences those of other processes.
        timeout_s: how long one try of a fence may take.
    """

    def __init__(self, own: OwnHalves, fences: Fences, timeout_s: float) -> None:
        self._own = own
        self._fences = fences
        self._timeout_s = timeout_s

    def known_outcome(self, request: MessageExt) -> CallbackResult | None:
        """Return the answer to a check if this process knows it without the listener, else None.

        A half that waits in a lane is taken off it: the answer goes the checked way.
        """
        if not request.direct_id:
            return None
        if not self._own.owns(request.direct_id):
            return None if self._fences.may_fence(request.direct_id) else NEVER
        half = self._own.find(request.transaction_id)
        if half is None or half.state in (HalfState.RUNNING, HalfState.CLOSED):
            return None
        self._own.close(half)
        return COMMITTED

    def close(self, request: MessageExt, state: LocalTransactionState) -> str | None:
        """Rule out that a half is delivered directly after its answer, as far as needed.

        Args:
            request: the check.
            state: the answer to be given.

        Returns:
            The DIRECT_CLOSED of the answer: the session's id if the session can't deliver the half
            any more, else empty. None: this is not certain yet, and no answer may be sent.
        """
        if not request.direct_id:
            return ""
        if self._own.owns(request.direct_id):
            return self._close_own(request, state)
        if request.direct_closed:
            return request.direct_id
        if state is LocalTransactionState.UNKNOW:
            return ""
        fenced = self._fences.fence(request.direct_id, self._timeout_s)
        return request.direct_id if fenced else None

    def _close_own(self, request: MessageExt, state: LocalTransactionState) -> str | None:
        half = self._own.find(request.transaction_id)
        if half is None:
            # The half has ended, or is in doubt: Kafka has acknowledged its records, or never will.
            return request.direct_id
        if state is LocalTransactionState.UNKNOW and half.state is HalfState.RUNNING:
            return ""
        if self._own.close(half) or half.state is HalfState.DELIVERED:
            return request.direct_id
        return None  # in a transaction
