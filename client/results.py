"""The results of sends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from checkback.client.listener import LocalTransactionState
from checkback.client.message import MessageQueue


class SendStatus(Enum):
    """RocketMQ's send statuses. Each but SEND_OK means: the leader has it, the replicas may not."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """No send returns it: Kafka does not flush before it answers. RocketMQ's callers know it."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """The leader has it, the replicas did not confirm in time (Kafka's REQUEST_TIMED_OUT).

    Only plain sends without further tries return it: librdkafka repeats others until their time is
    over, and then the send raises a SendError.
    """
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """The leader has it, too few replicas do (Kafka's NOT_ENOUGH_REPLICAS_AFTER_APPEND).

    A message has it only if the brokers answered so to each of its tries.
    """


@dataclass(kw_only=True, slots=True)
class SendResult:
    """A message that was stored.

    Args:
        send_status: how safely it is stored.
        msg_id: the unique id that the client gave the message (UNIQ_KEY).
        message_queue: the queue that has it, for a transaction the half's; None if the brokers did
            not say which.
        queue_offset: its offset there, -1 if the brokers did not say it.
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
        exception: what the listener raised, or says that its transaction raised; else None.
    """

    local_transaction_state: LocalTransactionState
    exception: Exception | None = None
