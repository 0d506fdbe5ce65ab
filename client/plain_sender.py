"""Plain sends: to a queue by turns, by key, by the caller's choice; waited for, or not."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from kafka.partitioner.default import murmur2

from checkback.client.budget import Budget
from checkback.client.counters import Counters, Event
from checkback.client.kafka_channel import RenewedChannel
from checkback.client.message import Message, MessageQueue
from checkback.client.options import ProducerOptions
from checkback.client.outcome import remark_of
from checkback.client.plain_send import PlainRecord, PlainSend
from checkback.client.queue_selection import MessageQueueSelector, choose_partition
from checkback.client.results import SendResult
from checkback.client.timers import Timers
from checkback.protocol import properties as names
from checkback.protocol.errors import InvalidMessageError, SendError
from checkback.protocol.properties import Headers

_log = logging.getLogger(__name__)

Choice = Callable[[int | None], tuple[MessageQueue, int | None]]


class PlainSender:
    """Sends plain messages through a Kafka producer that tries once.

    Args:
        channel: holds that producer.
        options: time, tries, and how many may wait.
        counters: told of each outcome.
    """

    def __init__(
        self, channel: RenewedChannel, options: ProducerOptions, counters: Counters
    ) -> None:
        self._channel = channel
        self._options = options
        self._counters = counters
        self._faults = channel.faults if options.send_latency_fault_enable else None
        self._turns = itertools.count()
        self._timers = Timers("checkback-plain-sends")
        self._room = threading.BoundedSemaphore(options.async_sends_max)

    def send(self, message: Message, choice: Choice, tries_max: int) -> SendResult:
        """Send and wait.

        Raises:
            SendError: it was not, or not certainly, stored.
        """
        under_way = self._new_send(message, choice, tries_max)
        result = under_way.start()
        try:
            return result.result(under_way.budget.remaining_ms(_now_ms()) / 1000)
        except FutureTimeoutError:
            under_way.give_up()
            return result.result(0)

    def send_async(self, message: Message, choice: Choice, tries_max: int) -> Future[SendResult]:
        """Send without waiting.

        Raises:
            SendError: ``async_sends_max`` sends wait already.
        """
        self._take_room()
        under_way = self._new_send(message, choice, tries_max)
        under_way.result.add_done_callback(lambda _: self._room.release())
        result = under_way.start()
        if not result.done():
            self._timers.after(under_way.budget.timeout_ms, under_way.give_up)
        return result

    def send_one_way(self, message: Message, choice: Choice) -> None:
        """Send, and only log and count when it fails.

        Raises:
            SendError: ``async_sends_max`` sends wait already.
        """
        self.send_async(message, choice, tries_max=1).add_done_callback(_log_failure)

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic in order.

        Raises:
            BrokerError: it does not exist or may not be seen.
        """
        leaders = self._channel.current().leaders(topic)
        return [MessageQueue(topic, partition) for partition in sorted(leaders)]

    def by_turns(self, message: Message) -> Choice:
        """Choose by turns, avoiding the broker of the last try; by key where there is one."""
        topic = message.topic
        if message.queue_id is not None:
            return self.fixed(MessageQueue(topic, message.queue_id))
        if message.key is not None:
            return self.fixed(MessageQueue(topic, self._partition_of_key(topic, message.key)))

        def choose(last_broker: int | None) -> tuple[MessageQueue, int | None]:
            leaders = self._channel.current().leaders(topic)
            partition = choose_partition(
                leaders,
                next(self._turns),
                last_broker=last_broker,
                faults=self._faults,
                now_ms=_now_ms(),
            )
            return MessageQueue(topic, partition), leaders[partition]

        return choose

    def by_selector(
        self, message: Message, selector: MessageQueueSelector, argument: Any
    ) -> Choice:
        """Choose as the application says."""
        return self.fixed(selector(self.queues(message.topic), message, argument))

    def fixed(self, queue: MessageQueue) -> Choice:
        """Choose that queue, each time.

        Raises:
            InvalidMessageError: there is no such queue.
        """
        leaders = self._channel.current().leaders(queue.topic)
        if queue.queue_id not in leaders:
            raise InvalidMessageError(
                f"{queue.topic} has no queue {queue.queue_id}; it has {len(leaders)}.",
                topic=queue.topic,
            )
        return lambda _: (queue, leaders[queue.queue_id])

    def close(self, timeout_s: float) -> None:
        """Send what waits, then close."""
        self._channel.close(timeout_s)
        self._timers.close()

    def _new_send(self, message: Message, choice: Choice, tries_max: int) -> PlainSend:
        return PlainSend(
            record=_record(message),
            choose=choice,
            hand_over=self._hand_over,
            after=self._timers.after,
            budget=Budget(_now_ms(), self._options.send_msg_timeout_ms, tries_max),
            counters=self._counters,
            try_again_not_store_ok=self._options.retry_another_broker_when_not_store_ok,
        )

    def _hand_over(self, record: PlainRecord, queue: MessageQueue) -> Any:
        return self._channel.current().producer.send(
            queue.topic, record.body, record.key, record.headers, queue.queue_id
        )

    def _take_room(self) -> None:
        if not self._room.acquire(blocking=False):
            self._counters.add(Event.SEND_FAILED)
            raise SendError(
                f"{self._options.async_sends_max} sends wait for Kafka already (async_sends_max).",
                remedy="Slow down, or wait for some of the futures.",
                in_doubt=False,
            )

    def _partition_of_key(self, topic: str, key: bytes) -> int:
        """Return the partition that any Kafka client with default settings would choose."""
        return int(murmur2(key) & 0x7FFFFFFF) % len(self.queues(topic))


def _log_failure(done: Future[SendResult]) -> None:
    error = done.exception()
    if error is not None:
        _log.warning("A one-way message was not sent: %s", remark_of(error))


def plain_headers(message: Message, msg_id: str) -> Headers:
    """Return the headers of a plain message: its properties, its id, KEYS and TAGS."""
    headers = [(name, value.encode()) for name, value in message.properties.items()]
    headers.append((names.UNIQ_KEY, msg_id.encode()))
    if message.keys:
        headers.append((names.KEYS, message.keys.encode()))
    if message.tags:
        headers.append((names.TAGS, message.tags.encode()))
    return headers


def _record(message: Message) -> PlainRecord:
    msg_id = uuid.uuid4().hex
    return PlainRecord(
        msg_id=msg_id,
        body=message.body,
        key=message.record_key(),
        headers=plain_headers(message, msg_id),
    )


def _now_ms() -> float:
    return time.monotonic() * 1000
