"""What a send comes back with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from checkback.client.listener import LocalTransactionState
from checkback.client.message import MessageQueue


class SendStatus(Enum):
    """RocketMQ's send statuses. Every one but SEND_OK means: stored, but not yet safely."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Never seen on Kafka, which does not flush before it answers; kept for its callers."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """The leader has it, the replicas did not confirm in time (Kafka's REQUEST_TIMED_OUT).

    Of plain sends only: a half is repeated until its time is over, and ends as a SendError then.
    """
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """The leader has it, too few replicas do (Kafka's NOT_ENOUGH_REPLICAS_AFTER_APPEND).

    Of a half only when each of its tries was answered so.
    """


@dataclass(kw_only=True, slots=True)
class SendResult:
    """A message that was stored.

    Args:
        send_status: how safely.
        msg_id: the unique id that the client gave the message (UNIQ_KEY).
        message_queue: where it was stored; for a transaction the half's queue, and None where
            the send status leaves that open.
        queue_offset: its offset there, -1 where the send status leaves that open.
        transaction_id: the same as ``msg_id``, empty for a plain send.
    """

    send_status: SendStatus
    msg_id: str
    message_queue: MessageQueue | None
    queue_offset: int
    transaction_id: str = ""

    @property
    def offset_msg_id(self) -> str:
        """Return topic, partition and offset as one text (RocketMQ leaves it null: #2496)."""
        if self.message_queue is None or self.queue_offset < 0:
            return ""
        return f"{self.message_queue.topic}-{self.message_queue.queue_id}-{self.queue_offset}"


@dataclass(kw_only=True, slots=True)
class TransactionSendResult(SendResult):
    """A half message that was stored, and how its local transaction ended.

    Args:
        local_transaction_state: what the op says. ROLLBACK_MESSAGE with a send status other
            than SEND_OK means that the local transaction did not run.
        exception: what the listener raised, None where it returned.
        delivered: whether consumers see the message by direct delivery; None where nobody waited
            for that, or it does not go direct.
    """

    local_transaction_state: LocalTransactionState
    exception: Exception | None = None
    delivered: bool | None = None
