"""Plain sends: to a queue by turns, by key, by the caller's choice; waited for, or not."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import Message as KafkaMessage
from confluent_kafka import Producer

from checkback.client.broker_watch import BrokerWatch
from checkback.client.budget import Budget
from checkback.client.callback_result import remark_of
from checkback.client.counters import ClientEvent, Counters
from checkback.client.message import Message, MessageQueue
from checkback.client.options import ProducerOptions
from checkback.client.plain_send import BY_KEY, PlainRecord, PlainSend, PlainTry
from checkback.client.polled_producer import PolledProducer
from checkback.client.queue_selection import MessageQueueSelector, choose_partition
from checkback.client.results import SendResult
from checkback.client.timers import Timers
from checkback.client.topic_facts import TopicFacts
from checkback.protocol import properties as names
from checkback.protocol.errors import (
    BrokerError,
    InvalidMessageError,
    NotFoundError,
    SendError,
)
from checkback.protocol.properties import Headers

_log = logging.getLogger(__name__)

Choice = Callable[[int | None], tuple[MessageQueue, int | None]]


class PlainSender:
    """Sends plain messages through a Kafka producer that tries once.

    Args:
        open_producer: opens it, given what hears of its connections.
        facts: knows the topics.
        new_id: makes message ids.
        options: time, tries, and how many may wait.
        counters: told of each outcome.
    """

    def __init__(
        self,
        open_producer: Callable[[Callable[[Any], None]], Producer],
        facts: TopicFacts,
        new_id: Callable[[], str],
        options: ProducerOptions,
        counters: Counters,
    ) -> None:
        self._brokers = BrokerWatch()
        self._polled = PolledProducer(
            lambda: open_producer(self._brokers.connection_failed),
            "checkback-plain",
            self._sample,
        )
        self._facts = facts
        self._new_id = new_id
        self._options = options
        self._counters = counters
        self._faults = self._brokers.faults if options.send_latency_fault_enable else None
        self._turns = itertools.count()
        self._timers = Timers("checkback-plain-sends")
        self._room = threading.Semaphore(options.async_sends_max)
        self._not_waited_for: set[PlainSend] = set()

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
        under_way = self._new_send(message, choice, tries_max)
        self._take_room()
        self._not_waited_for.add(under_way)
        under_way.result.add_done_callback(lambda _: self._ended(under_way))
        result = under_way.start()
        timeout_ms = under_way.budget.timeout_ms
        if not result.done() and not self._timers.after(timeout_ms, under_way.give_up):
            under_way.shut_down()
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
        return [MessageQueue(topic, partition) for partition in self._leaders(topic)]

    def by_turns(self, message: Message) -> Choice:
        """Choose a queue by turns, avoiding the last try's broker; by key where there is one."""
        topic = message.topic
        if message.queue_id is not None:
            return self.fixed(message, MessageQueue(topic, message.queue_id))
        if message.key is not None:
            self._leaders(topic)  # there has to be such a topic
            return lambda _: (MessageQueue(topic, BY_KEY), None)

        def choose(last_broker: int | None) -> tuple[MessageQueue, int | None]:
            if last_broker is not None:
                self._brokers.silent(last_broker)
                self._facts.refresh(topic)
            leaders = self._leaders(topic)
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
        """Let the application choose the queue."""
        return self.fixed(message, selector(self.queues(message.topic), message, argument))

    def fixed(self, message: Message, queue: MessageQueue) -> Choice:
        """Choose that queue, each time.

        Raises:
            InvalidMessageError: there is no such queue, or it is another topic's.
        """
        if queue.topic != message.topic:
            raise InvalidMessageError(
                f"The message is for {message.topic}, the queue is one of {queue.topic}.",
                remedy="Give a queue of the message's topic.",
                topic=message.topic,
            )
        leaders = self._leaders(queue.topic)
        if queue.queue_id not in leaders:
            raise InvalidMessageError(
                f"{queue.topic} has no queue {queue.queue_id}; it has {len(leaders)}.",
                topic=queue.topic,
            )
        return lambda _: (queue, leaders[queue.queue_id])

    def close(self, timeout_s: float) -> int:
        """Send what waits, close, and end all other sends; return how many had tries left."""
        self._polled.close(timeout_s)
        self._timers.close()
        left = list(self._not_waited_for)
        for under_way in left:
            under_way.shut_down()
        return len(left)

    def _ended(self, under_way: PlainSend) -> None:
        self._not_waited_for.discard(under_way)
        self._room.release()

    def _new_send(self, message: Message, choice: Choice, tries_max: int) -> PlainSend:
        return PlainSend(
            record=self._record(message),
            choose=choice,
            hand_over=self._hand_over,
            after=self._timers.after,
            budget=Budget(_now_ms(), self._options.send_msg_timeout_ms, tries_max),
            counters=self._counters,
            left_early=lambda attempt: self._brokers.is_away(attempt.broker),
            done=self._polled.done,
            try_again_not_store_ok=self._options.retry_another_broker_when_not_store_ok,
        )

    def _hand_over(self, record: PlainRecord, attempt: PlainTry) -> None:
        topic, partition = attempt.queue.topic, attempt.queue.queue_id
        self._polled.producer.produce(
            topic, record.body, record.key, partition, attempt, None, 0, record.headers
        )

    def _record(self, message: Message) -> PlainRecord:
        msg_id = self._new_id()
        return PlainRecord(
            msg_id=msg_id,
            body=message.body,
            key=message.record_key(),
            headers=plain_headers(message, msg_id),
        )

    def _take_room(self) -> None:
        if not self._room.acquire(blocking=False):
            self._counters.add(ClientEvent.SEND_FAILED)
            raise SendError(
                f"{self._options.async_sends_max} sends wait for Kafka already (async_sends_max).",
                remedy="Slow down, or wait for some of the futures.",
                in_doubt=False,
            ) from None

    def _leaders(self, topic: str) -> Mapping[int, int | None]:
        """Return the leader broker of each partition.

        Raises:
            BrokerError: the topic does not exist or may not be seen.
        """
        try:
            return self._facts.topic(topic).leaders
        except NotFoundError as error:
            raise BrokerError(error.message, remedy=error.remedy, topic=topic) from error

    def _sample(self, stored: KafkaMessage) -> None:
        topic, partition, latency_s = stored.topic(), stored.partition(), stored.latency()
        if topic is None or partition is None or latency_s is None:
            return
        leader = self._leaders(topic).get(partition)
        if leader is not None:
            self._brokers.answered(leader, latency_s * 1000)


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


def _now_ms() -> float:
    return time.monotonic() * 1000
