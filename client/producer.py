"""The producer of plain messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Unpack

from checkback.client.lifecycle import ManagedProducer
from checkback.client.message import Message, MessageQueue
from checkback.client.options import ProducerKeywords
from checkback.client.plain_sender import PlainSender, plain_headers
from checkback.client.queue_selection import MessageQueueSelector
from checkback.client.results import SendResult
from checkback.client.topic_facts import TopicFacts
from checkback.client.validation import check_message, check_not_delayed
from checkback.protocol.errors import BrokerError, NotFoundError
from checkback.protocol.record_size import record_bytes_max

SendCallback = Callable[["Future[SendResult]"], None]
"""The producer calls it with the finished future, in a thread that serves all sends: a callback
that blocks holds them all up."""


class DefaultMQProducer(ManagedProducer):
    """Sends plain messages. One may be stored twice; none is lost without an error or a log line.

    Args:
        producer_group: the group it belongs to.
        bootstrap_servers: Kafka brokers, host:port, separated by commas.
        options: see `ProducerOptions`.

    Raises:
        ConfigurationError: the group or an option is not usable.
    """

    def __init__(
        self, producer_group: str, *, bootstrap_servers: str, **options: Unpack[ProducerKeywords]
    ) -> None:
        super().__init__(producer_group, bootstrap_servers=bootstrap_servers, **options)
        self._facts = TopicFacts(self._clients.admin, self.options.send_msg_timeout_ms / 1000)
        self._plain: PlainSender | None = None
        self._plain_lock = threading.Lock()

    def send(
        self,
        message: Message,
        *,
        selector: MessageQueueSelector | None = None,
        argument: Any = None,
    ) -> SendResult:
        """Send and wait until all replicas have it (RocketMQ's SYNC).

        A message with a ``queue_id`` goes to that queue. Of a message with a record ``key`` the key
        chooses the queue, as in any Kafka client. For all others the producer takes the topic's
        queues by turns; after a failed try it avoids the broker of that try.

        Args:
            message: what to send.
            selector: chooses the queue instead; the producer then tries only once.
            argument: the producer passes it to the selector.

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: not started, shut down, or forked.
            BrokerError: the topic does not exist, or this user may not describe it.
            SendError: the message was not stored, or nobody knows: then the field ``in_doubt`` is
                true.
        """
        sender = self._ready(message)
        with self._running:
            if selector is None:
                return sender.send(message, sender.by_turns(message), self._tries_max)
            return sender.send(message, sender.by_selector(message, selector, argument), 1)

    def send_async(
        self, message: Message, callback: SendCallback | None = None
    ) -> Future[SendResult]:
        """Send without waiting (RocketMQ's ASYNC), with as many tries as ``send`` has.

        Args:
            message: what to send.
            callback: the producer calls it when the send has ended.

        Returns:
            A future that ends with the result or the error within ``send_msg_timeout_ms``.

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: not started, shut down, or forked.
            SendError: ``async_sends_max`` other sends are under way.
        """
        sender = self._ready(message)
        result = sender.send_async(message, sender.by_turns(message), self._tries_max)
        if callback is not None:
            result.add_done_callback(callback)
        return result

    def send_one_way(self, message: Message) -> None:
        """Send in one try and do not wait; a failure is logged and counted (RocketMQ's ONEWAY).

        Raises:
            InvalidMessageError: the message can't be sent as it is.
            LifeCycleError: not started, shut down, or forked.
            SendError: ``async_sends_max`` other sends are under way.
        """
        sender = self._ready(message)
        sender.send_one_way(message, sender.by_turns(message))

    def send_to_queue(self, message: Message, queue: MessageQueue) -> SendResult:
        """Send to that queue, in one try, and wait.

        Raises:
            InvalidMessageError: the message can't be sent as it is, or the topic has no such queue.
            LifeCycleError: not started, shut down, or forked.
            SendError: the message was not stored, or nobody knows (field ``in_doubt``).
        """
        sender = self._ready(message)
        with self._running:
            return sender.send(message, sender.fixed(message, queue), 1)

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic in order.

        Raises:
            LifeCycleError: not started, shut down, or forked.
            BrokerError: the topic does not exist, or this user may not describe it.
        """
        self._require_running()
        return self._plain_sender().queues(topic)

    @property
    def _tries_max(self) -> int:
        return 1 + self.options.retry_times_when_send_failed

    def _ready(self, message: Message) -> PlainSender:
        """Check the producer's state and the message; return the sender."""
        self._require_running()
        check_message(message, self.topics, self.options.max_message_size)
        check_not_delayed(message)
        size = record_bytes_max(message.record_key(), message.body, plain_headers(message, ""))
        try:
            self._facts.check(message.topic, message, size)
        except NotFoundError as error:
            raise BrokerError(error.message, remedy=error.remedy, topic=message.topic) from error
        return self._plain_sender()

    def _open(self) -> None:
        self._facts.start()
        self._plain = self._new_plain_sender()

    def _plain_sender(self) -> PlainSender:
        """Return the sender; the first call opens it, and with it a second connection to Kafka.

        Raises:
            LifeCycleError: the producer was shut down meanwhile.
        """
        with self._plain_lock:
            if self._plain is None:
                self._require_running()
                self._plain = self._new_plain_sender()
            return self._plain

    def _new_plain_sender(self) -> PlainSender:
        return PlainSender(
            self._clients.plain_producer, self._facts, self._new_id, self.options, self.counters
        )

    def _close(self, left_s: Callable[[], float]) -> int:
        left = self._running.wait_until_idle(left_s())
        self._facts.close()
        with self._plain_lock:
            plain = self._plain
        if plain is not None:
            left += plain.close(left_s())
        return left
