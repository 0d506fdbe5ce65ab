"""Sends plain messages: to a queue by turns, by key or by choice, with or without waiting."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as KafkaMessage

from checkback.client.kafka.broker_watch import BrokerWatch
from checkback.client.kafka.delivery_reports import PolledProducer
from checkback.client.kafka.errors import NOT_SAFELY_STORED, REFUSALS
from checkback.client.kafka.queue_selection import BY_KEY, MessageQueueSelector, choose_partition
from checkback.client.kafka.topics import TopicFacts
from checkback.client.listener import one_line
from checkback.client.message import Message, MessageQueue
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.options import ProducerOptions
from checkback.client.results import SendResult, SendStatus
from checkback.protocol import properties as names
from checkback.protocol.errors import (
    BrokerError,
    InvalidMessageError,
    NotFoundError,
    SendError,
)
from checkback.protocol.properties import Headers

_log = logging.getLogger(__name__)

LOOK_S: Final = 0.05
"""How often a send that waits looks whether its broker went away."""
PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Reports of records that a shutdown took out of librdkafka's queue."""


@dataclass(eq=False, slots=True)
class PlainSend:
    """A message on its way, and the report of it that librdkafka calls.

    Args:
        queue: where it goes; the report says where, if the key chooses.
        done: where the report puts itself.
        on_error: called with the queue of a send that no broker confirmed.
    """

    msg_id: str
    queue: MessageQueue
    done: deque[Any]
    counters: Counters
    on_error: Callable[[MessageQueue], None]
    error: KafkaError | None = None
    message: KafkaMessage | None = None
    result: Future[SendResult] = field(default_factory=Future)

    def __call__(self, error: KafkaError | None, message: KafkaMessage) -> None:
        """Take the report."""
        self.error, self.message = error, message
        self.done.append(self)

    def wake(self) -> None:
        """End the send by what the report says; the shutdown itself ends those that it purges."""
        error, message, self.message = self.error, self.message, None
        if error is None and message is not None:
            offset = message.offset()
            self._stored(message, -1 if offset is None else offset, SendStatus.SEND_OK)
        elif error is not None and error.code() not in PURGED:
            status = NOT_SAFELY_STORED.get(error.code())
            if status is not None:
                self._stored(message, -1, status)
            else:
                self.failed(error)

    def failed(self, error: KafkaError) -> None:
        """End the send by an error of librdkafka's."""
        is_certain = error.code() in REFUSALS
        self.give_up(error.str(), in_doubt=not is_certain)
        if not is_certain:
            self.on_error(self.queue)

    def give_up(self, problem: str, *, in_doubt: bool = True) -> bool:
        """End the send as not confirmed; return whether it had not ended yet."""
        doubt = "It may be stored: sent again, it may be there twice."
        remedy = doubt if in_doubt else "Nothing was stored: send it again when Kafka takes it."
        said = f"The message was not sent: {problem}."
        return self.end_by(SendError(said, remedy=remedy, in_doubt=in_doubt))

    def end_by(self, error: Exception) -> bool:
        """End the send by an error; return whether it had not ended yet."""
        try:
            self.result.set_exception(error)
        except InvalidStateError:
            return False
        self.counters.add(ClientEvent.SEND_FAILED)
        return True

    def _stored(self, message: KafkaMessage | None, offset: int, status: SendStatus) -> None:
        queue: MessageQueue | None = self.queue
        if self.queue.queue_id == BY_KEY:
            chosen = None if message is None else message.partition()
            is_told = chosen is not None and chosen >= 0
            queue = MessageQueue(self.queue.topic, chosen or 0) if is_told else None
        result = SendResult(
            send_status=status, msg_id=self.msg_id, message_queue=queue, queue_offset=offset
        )
        try:
            self.result.set_result(result)
        except InvalidStateError:
            return  # its time is over, or the caller cancelled it
        self.counters.add(ClientEvent.SENT)


class PlainSender:
    """Sends plain messages; librdkafka tries again, on the same queue, until the time is over.

    Only a send that waits, of a message by turns, leaves a broker that is away for another one.
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
        self._turns = itertools.count()
        self._room = threading.Semaphore(options.async_sends_max)
        self._not_waited_for: set[PlainSend] = set()
        self._is_closed = False

    def send(
        self, message: Message, queue: MessageQueue, *, is_by_turns: bool = False
    ) -> SendResult:
        """Send and wait.

        Args:
            is_by_turns: whether another queue will do while the queue's broker is away. What the
                broker then got all the same, is there twice.

        Raises:
            SendError: it was not, or not certainly, stored.
        """
        timeout_ms = self._options.send_msg_timeout_ms
        until_s = time.monotonic() + timeout_ms / 1_000
        moves = self._options.retry_times_when_send_failed if is_by_turns else 0
        under_way = self._new_send(queue)
        self._hand_over(under_way, message)
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                return under_way.result.result(min(left_s, LOOK_S) if moves else left_s)
            except FutureTimeoutError:
                other = self._elsewhere(message, under_way.queue) if moves else None
            if other is not None and under_way.result.cancel():
                moves -= 1
                self._counters.add(ClientEvent.SEND_RETRIED)
                under_way = self._new_send(other, under_way.msg_id)
                self._hand_over(under_way, message)
        under_way.give_up(f"it was not confirmed within {timeout_ms} ms")
        return under_way.result.result(0)

    def _elsewhere(self, message: Message, queue: MessageQueue) -> MessageQueue | None:
        """Return another queue for a message if the broker of its queue is away."""
        if not self._brokers.is_away(self._leaders(queue.topic).get(queue.queue_id)):
            return None
        other = self.by_turns(message)
        return None if other == queue else other

    def send_async(self, message: Message, queue: MessageQueue) -> Future[SendResult]:
        """Send without waiting.

        Raises:
            SendError: ``async_sends_max`` sends wait already.
        """
        under_way = self._new_send(queue)
        self._take_room()
        self._not_waited_for.add(under_way)
        under_way.result.add_done_callback(lambda _: self._ended(under_way))
        self._hand_over(under_way, message)
        if self._is_closed:
            _shut_down(under_way)
        return under_way.result

    def send_one_way(self, message: Message, queue: MessageQueue) -> None:
        """Send, and only log and count when it fails.

        Raises:
            SendError: ``async_sends_max`` sends wait already.
        """
        self.send_async(message, queue).add_done_callback(_log_failure)

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic in order.

        Raises:
            BrokerError: it does not exist or may not be seen.
        """
        return [MessageQueue(topic, partition) for partition in self._leaders(topic)]

    def by_turns(self, message: Message) -> MessageQueue:
        """Choose the message's own queue, else by key where there is one, else by turns.

        Queues whose brokers are away come last in turn.
        """
        topic = message.topic
        if message.queue_id is not None:
            return self.fixed(message, MessageQueue(topic, message.queue_id))
        leaders = self._leaders(topic)
        if message.key is not None:
            return MessageQueue(topic, BY_KEY)
        away = [number for number, one in leaders.items() if self._brokers.is_avoided(one)]
        partition = choose_partition(
            leaders,
            next(self._turns),
            barred=frozenset(away),
            brokers=self._brokers if self._options.send_latency_fault_enable else None,
        )
        return MessageQueue(topic, partition)

    def by_selector(
        self, message: Message, selector: MessageQueueSelector, argument: Any
    ) -> MessageQueue:
        """Let the application choose the queue."""
        return self.fixed(message, selector(self.queues(message.topic), message, argument))

    def fixed(self, message: Message, queue: MessageQueue) -> MessageQueue:
        """Return that queue, once it is known to be one of the message's topic.

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
        return queue

    def close(self, timeout_s: float) -> int:
        """Send what waits, close, and end all other sends; return how many that were."""
        self._polled.close(timeout_s)
        self._is_closed = True
        return sum(map(_shut_down, list(self._not_waited_for)))

    def _ended(self, under_way: PlainSend) -> None:
        self._not_waited_for.discard(under_way)
        self._room.release()

    def _new_send(self, queue: MessageQueue, msg_id: str = "") -> PlainSend:
        known = msg_id or self._new_id()
        return PlainSend(known, queue, self._polled.done, self._counters, self._silent)

    def _hand_over(self, under_way: PlainSend, message: Message) -> None:
        try:
            problem = self._polled.hand_over(
                topic=under_way.queue.topic,
                value=message.body,
                key=message.record_key(),
                partition=under_way.queue.queue_id,
                on_delivery=under_way,
                headers=plain_headers(message, under_way.msg_id),
            )
        except Exception as error:  # any: the caller waits for the result
            under_way.end_by(error)
        else:
            if problem is not None:
                under_way.failed(problem)

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

    def _silent(self, queue: MessageQueue) -> None:
        """Note that the broker of a queue did not confirm a send, and ask who leads it now."""
        self._facts.refresh(queue.topic)
        self._brokers.silent(self._leaders(queue.topic).get(queue.queue_id))

    def _sample(self, stored: KafkaMessage) -> None:
        topic, partition, latency_s = stored.topic(), stored.partition(), stored.latency()
        if topic is None or partition is None or latency_s is None:
            return
        self._brokers.answered(self._leaders(topic).get(partition), latency_s * 1000)


def _shut_down(under_way: PlainSend) -> bool:
    return under_way.give_up("the producer was shut down before it was confirmed")


def _log_failure(done: Future[SendResult]) -> None:
    error = done.exception()
    if error is not None:
        _log.warning("A one-way message was not sent: %s", one_line(error))


def plain_headers(message: Message, msg_id: str) -> Headers:
    """Return the headers of a plain message: its properties, its id, KEYS and TAGS."""
    headers = [(name, names.header_value(value)) for name, value in message.properties.items()]
    headers.append((names.UNIQ_KEY, msg_id.encode()))
    if message.keys:
        headers.append((names.KEYS, message.keys.encode()))
    if message.tags:
        headers.append((names.TAGS, message.tags.encode()))
    return headers
