"""The messages that were sent in one database transaction, and the fate they share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from checkback.client.listener import LocalTransactionState
from checkback.client.sending.steps import Request
from checkback.client.sessions.log_table import LATE, Execute, TransactionLog
from checkback.client.sessions.sent import Perform, SentMessage
from checkback.metrics.log_lines import facts
from checkback.protocol.errors import LifeCycleError

_log = logging.getLogger(__name__)

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOWN = LocalTransactionState.UNKNOW


Await = Callable[[Awaitable[Any]], Any]
"""Waits for an awaitable in a function that is no coroutine: SQLAlchemy's ``await_only``."""


class Owner(Protocol):
    """The producer of a message, as the message's transaction uses it."""

    @property
    def log(self) -> TransactionLog | None:
        """Where the rows of its transactions go; None where a function answers checks."""
        ...

    def perform(self, request: Request) -> None:
        """Do in this thread what a step asks for."""

    async def perform_in_loop(self, request: Request) -> None:
        """Do what a step asks for, without holding up the event loop."""


class Joined:
    """Messages of one database transaction: all are delivered, or none.

    The code that follows the transaction's events calls a method for each event.

    Args:
        stores_at_once: whether each send waits for its half, because nothing calls ``seal``.
    """

    def __init__(self, *, stores_at_once: bool = False) -> None:
        self.stores_at_once = stores_at_once
        # The stack of open savepoints, each with what was sent in it; the transaction is the first.
        self._scopes: list[list[tuple[Owner, SentMessage]]] = [[]]
        self._is_sealed = False
        self._spoiled = ""
        self.is_ended = False
        self.is_released = False
        """Set between two events of a session: a savepoint is kept, and the same savepoint ends."""

    def add(self, owner: Owner, sent: SentMessage) -> None:
        """Add a message to the innermost savepoint.

        Raises:
            LifeCycleError: the transaction is already being committed.
        """
        if self._is_sealed or self.is_ended:
            sent.end(ROLLBACK)
            raise LifeCycleError(
                f"The message for {sent.topic} comes too late: its transaction commits or ended.",
                remedy="Send it before the commit.",
            )
        self._scopes[-1].append((owner, sent))

    def savepoint(self) -> None:
        """Note that a savepoint begins."""
        self._scopes.append([])

    def release(self) -> None:
        """Move the messages of the innermost savepoint to the enclosing one."""
        if len(self._scopes) > 1:  # else it is a savepoint from before the first message
            inner = self._scopes.pop()
            self._scopes[-1] += inner

    def rollback_to(self) -> None:
        """Roll back the messages of the innermost savepoint."""
        inner = self._scopes.pop()
        if not self._scopes:  # a savepoint from before the first message
            self._scopes.append([])
        for _, sent in inner:
            sent.end(ROLLBACK)

    def keep(self, is_kept: Callable[[SentMessage], bool]) -> None:
        """Roll back the messages that are not kept."""
        for scope in self._scopes:
            for _, sent in scope:
                if not is_kept(sent):
                    sent.end(ROLLBACK)
            scope[:] = [(owner, sent) for owner, sent in scope if is_kept(sent)]

    def spoil(self, reason: str) -> None:
        """Make the commit fail, for this reason."""
        self._spoiled = reason

    def seal(self, execute: Execute, paramstyle: str = "", await_: Await | None = None) -> None:
        """Wait for all halves, and write their rows: the last thing before the commit.

        Args:
            execute: runs a statement in the transaction.
            paramstyle: of its connection; by default that of the log's database.
            await_: waits in an event loop; None where the thread itself may wait.

        Raises:
            SendError: a half is not, or not certainly, stored; nothing may be committed.
            LifeCycleError: it is unclear which messages were rolled back; nothing may be committed.
            Exception: a row could not be written; nothing may be committed.
        """
        if self._spoiled:
            raise LifeCycleError(
                self._spoiled,
                remedy="End savepoints from the inside out, and run the transaction again.",
            )
        ids: dict[TransactionLog, list[str]] = {}
        for owner, sent in self._live():
            sent.store(_performing(owner, await_))
            if owner.log is not None:
                ids.setdefault(owner.log, []).append(sent.transaction_id)
        self._is_sealed = True
        for log, transaction_ids in ids.items():
            try:
                log.write(execute, transaction_ids, paramstyle=paramstyle)
            except Exception as error:
                error.add_note(LATE)
                raise

    def end(self, state: LocalTransactionState, remark: str = "") -> None:
        """Send the ops of all messages."""
        if self.is_ended:
            return
        self.is_ended = True
        for _, sent in self._live():
            try:
                sent.end(state, remark)
            except Exception:  # of a tracer, say: the transaction has ended all the same
                _log.exception(
                    "No op was sent for %s; a check will ask",
                    sent.transaction_id,
                    extra=facts(transaction_id=sent.transaction_id),
                )

    def _live(self) -> Iterator[tuple[Owner, SentMessage]]:
        return (entry for scope in self._scopes for entry in scope)


def _performing(owner: Owner, await_: Await | None) -> Perform:
    if await_ is None:
        return owner.perform
    return lambda request: await_(owner.perform_in_loop(request))
