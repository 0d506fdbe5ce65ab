"""The producer side: what an application uses. librdkafka and Python, no Spark.

The names listed here stay stable.
"""

from checkback.client.asyncio_producer import AsyncTransactionListener, AsyncTransactionMQProducer
from checkback.client.kafka.queue_selection import MessageQueueSelector
from checkback.client.listener import LocalTransactionState, TransactionListener
from checkback.client.message import Message, MessageExt, MessageQueue
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerOptions
from checkback.client.producer import DefaultMQProducer, ServiceState
from checkback.client.results import SendResult, SendStatus, TransactionSendResult
from checkback.client.sessions.producer import Producer
from checkback.client.sessions.sent import SentMessage
from checkback.client.transaction_producer import TransactionMQProducer

__all__ = [
    "AsyncTransactionListener",
    "AsyncTransactionMQProducer",
    "ClientEvent",
    "Counters",
    "DefaultMQProducer",
    "LocalTransactionState",
    "Message",
    "MessageExt",
    "MessageQueue",
    "MessageQueueSelector",
    "Producer",
    "ProducerOptions",
    "SendResult",
    "SendStatus",
    "SentMessage",
    "ServiceState",
    "TransactionListener",
    "TransactionMQProducer",
    "TransactionSendResult",
]
