"""Answers checks: from the transaction log, or by the application's function."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Final

from checkback.client.listener import LocalTransactionState, TransactionListener
from checkback.client.message import Message, MessageExt
from checkback.client.sessions.log_table import TransactionLog
from checkback.protocol.errors import ConfigurationError

Check = Callable[[MessageExt], "LocalTransactionState | bool | None"]
"""Says how a message's transaction ended: True committed, False rolled back, None unknown."""

_ANSWERS: Final = {
    True: LocalTransactionState.COMMIT_MESSAGE,
    False: LocalTransactionState.ROLLBACK_MESSAGE,
    None: LocalTransactionState.UNKNOW,
}


class _CheckOnly(TransactionListener):
    """Runs no transaction: the application does, in its own code."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Never called."""
        raise NotImplementedError


class LogListener(_CheckOnly):
    """Answers checks from the transaction log."""

    def __init__(self, log: TransactionLog) -> None:
        self._log = log

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Look the outcome up; if there is none yet, make it a final rollback."""
        return self._log.outcome(message.transaction_id)


class CheckListener(_CheckOnly):
    """Answers checks by an application's function.

    Raises:
        ConfigurationError: it is no function, or one that has to be awaited.
    """

    def __init__(self, check: Check) -> None:
        given: object = check
        if not callable(given) or iscoroutinefunction(given):
            raise ConfigurationError(
                f"check is a {'coroutine' if callable(given) else type(given).__name__}.",
                remedy="Give a function that returns True, False or None; a thread calls it.",
                key="check",
            )
        self._check = check

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Ask the function."""
        answer = self._check(message)
        if isinstance(answer, LocalTransactionState):
            return answer
        if answer not in _ANSWERS:
            raise TypeError(f"check returned a {type(answer).__name__}: return True, False or None")
        return _ANSWERS[answer]
