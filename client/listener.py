"""What the application implements: its local transaction, and the answer to a check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any

from checkback.client.message import Message, MessageExt
from checkback.protocol import properties as names


class LocalTransactionState(IntEnum):
    """How a local transaction ended. The value is what stands in the op (MessageSysFlag)."""

    COMMIT_MESSAGE = names.TRANSACTION_COMMIT_TYPE
    ROLLBACK_MESSAGE = names.TRANSACTION_ROLLBACK_TYPE
    UNKNOW = names.TRANSACTION_NOT_TYPE  # RocketMQ's spelling


class TransactionListener(ABC):
    """The two callbacks of a transactional producer.

    Both may be called from several threads at once, and from a process that did not send the
    message: the pipeline asks any live producer of the group. An exception counts as UNKNOW, and
    operators see the first 1,024 characters of its text (the op's REMARK). KeyboardInterrupt and
    SystemExit end the send; a check asks later how its transaction ended.
    """

    @abstractmethod
    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState | None:
        """Run the local transaction of a half message that is safely stored.

        Args:
            message: the message as it was sent, with ``transaction_id`` set.
            arg: what the caller of ``send_message_in_transaction`` passed.

        Returns:
            How it ended. None counts as UNKNOW: a check will ask later.
        """

    @abstractmethod
    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState | None:
        """Say how the local transaction of that message ended.

        Args:
            message: the half message as it came back, with ``transaction_id`` and ``check_times``.

        Returns:
            How it ended. None counts as UNKNOW: it will be asked again.
        """
