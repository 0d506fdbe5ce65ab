"""What the application implements: its local transaction, and the answer to a check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from checkback.client.message import Message, MessageExt
from checkback.client.observing.counters import ClientEvent
from checkback.protocol import properties as names


class LocalTransactionState(IntEnum):
    """How a local transaction ended. The value is what stands in the op (MessageSysFlag)."""

    COMMIT_MESSAGE = names.TRANSACTION_COMMIT_TYPE
    ROLLBACK_MESSAGE = names.TRANSACTION_ROLLBACK_TYPE
    UNKNOW = names.TRANSACTION_NOT_TYPE  # RocketMQ's spelling


@dataclass(frozen=True, slots=True)
class CallbackResult:
    """The end of a callback. A listener may return it to say more than the state.

    Args:
        state: what the op says.
        remark: what went wrong, empty when nothing did.
        exception: what was raised, None when nothing was; the sender finds it in its result.
    """

    state: LocalTransactionState
    remark: str = ""
    exception: Exception | None = None


class TransactionListener(ABC):
    """The two callbacks of a transactional producer.

    Both may be called from several threads at once, and from a process that did not send the
    message: the pipeline asks any live producer of the group. An exception counts as UNKNOW, and
    operators see the first 1,024 characters of its text (the op's REMARK). KeyboardInterrupt and
    SystemExit end the send; a check asks later how its transaction ended.
    """

    @abstractmethod
    def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> LocalTransactionState | CallbackResult | None:
        """Run the local transaction of a half message that is safely stored.

        Args:
            message: the message as it was sent, with ``transaction_id`` set.
            arg: what the caller of ``send_message_in_transaction`` passed.

        Returns:
            How it ended. None counts as UNKNOW: a check will ask later. What was raised by a
            transaction that has certainly rolled back goes into a CallbackResult.
        """

    @abstractmethod
    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        """Say how the local transaction of that message ended.

        Args:
            message: the half message as it came back, with ``transaction_id`` and ``check_times``.

        Returns:
            How it ended. None counts as UNKNOW: it will be asked again.
        """


REMARK_LENGTH_MAX: Final = 1_024
"""A remark travels in a header; a traceback's worth of text has no place there."""

EVENTS_BY_STATE: Final = {
    LocalTransactionState.COMMIT_MESSAGE: ClientEvent.COMMITTED,
    LocalTransactionState.ROLLBACK_MESSAGE: ClientEvent.ROLLED_BACK,
    LocalTransactionState.UNKNOW: ClientEvent.UNKNOWN,
}
"""The event to count for each state that an op has."""


_RETURNED: Final = {state: CallbackResult(state) for state in LocalTransactionState}


def run_listener(
    callback: Callable[[], LocalTransactionState | CallbackResult | None],
) -> CallbackResult:
    """Run a callback of the listener. None, any other value and an exception mean UNKNOW."""
    try:
        return result_of(callback())
    except Exception as error:
        return CallbackResult(LocalTransactionState.UNKNOW, one_line(error), error)


def result_of(returned: object) -> CallbackResult:
    """Return the outcome of what a callback returned."""
    if isinstance(returned, LocalTransactionState):
        return _RETURNED[returned]
    if isinstance(returned, CallbackResult):
        return returned
    if returned is None:
        return _RETURNED[LocalTransactionState.UNKNOW]
    kind = type(returned).__name__
    return CallbackResult(LocalTransactionState.UNKNOW, f"the listener returned a {kind}")


def one_line(error: BaseException) -> str:
    """Return an exception as one short line that has a UTF-8 form, whatever its text is."""
    try:
        said = str(error)
    except Exception:
        said = "its text can't be made"
    text = " ".join(f"{type(error).__name__}: {said}".split())[:REMARK_LENGTH_MAX]
    return text.encode("utf-8", "replace").decode()
