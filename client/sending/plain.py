"""Sends plain messages: to a queue by turns, by key or by choice, with or without waiting."""

from __future__ import annotations

import heapq
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

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from checkback.client.kafka.broker_watch import BrokerWatch
from checkback.client.kafka.delivery_reports import PolledProducer
from checkback.client.kafka.errors import error_of, is_refusal, not_safely_stored
from checkback.client.kafka.queue_selection import MessageQueueSelector, choose_partition
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


@dataclass(frozen=True, slots=True)
class Budget:
    """A span of time on a monotonic clock."""

    started_ms: float
    timeout_ms: float
    tries_max: int

    def remaining_ms(self, now_ms: float) -> float:
        """Return what is left, never less than zero."""
        return max(0.0, self.started_ms + self.timeout_ms - now_ms)

    def allows(self, tries_begun: int, now_ms: float) -> bool:
        """Tell whether another try may begin."""
        return tries_begun < self.tries_max and self.remaining_ms(now_ms) > 0


class Timers:
    """Runs actions at their time, in one daemon thread."""

    def __init__(self, name: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()  # orders actions of equal times
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def after(self, delay_ms: float, action: Callable[[], None]) -> bool:
        """Run an action after a while; it must not block.

        False: the timers are closed; the action is dropped.
        """
        at_s = self._now_s() + delay_ms / 1000
        with self._changed:
            if self._closed:
                return False
            heapq.heappush(self._due, (at_s, next(self._numbers), action))
            self._changed.notify()
            return True

    def close(self) -> None:
        """Run nothing any more."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except BaseException:  # even SystemExit: other actions wait for this thread
                _log.exception("A delayed action failed")

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next action and return it, None once closed."""
        with self._changed:
            while not self._closed:
                left_s = self._due[0][0] - self._now_s() if self._due else None
                if left_s is not None and left_s <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left_s)
        return None


BY_KEY: Final = -1
"""The queue id where the key chooses the partition, as in every Kafka client."""
PAUSE_BEFORE_TRY_MS: Final = 100
"""Clients learn a moment later that a leader has moved; without a pause all tries would be used
up."""


@dataclass(frozen=True, kw_only=True)
class PlainRecord:
    """A plain message as it goes on the wire."""

    msg_id: str
    body: bytes | None
    key: bytes | None
    headers: Headers


SENT_AWAY: Final = PlainRecord(msg_id="", body=b"", key=None, headers=[])
"""Stands in a send that has ended: timers keep the send for a while, and need not keep a body."""


@dataclass(eq=False)
class PlainTry:
    """One try, and the report of it that librdkafka calls.

    Args:
        broker: the queue's leader, None where that is not known.
    """

    send: PlainSend
    queue: MessageQueue
    broker: int | None
    done: deque[Any]
    error: KafkaError | None = None
    message: KafkaMessage | None = None

    def __call__(self, error: KafkaError | None, message: KafkaMessage) -> None:
        """Take the report."""
        self.error, self.message = error, message
        self.done.append(self)

    def wake(self) -> None:
        """Go on by what the report says."""
        self.send.reported(self)


@dataclass(eq=False)
class PlainSend:
    """The tries of one message.

    Args:
        choose: returns queue and leader broker for the next try, given the last try's broker.
        hand_over: gives a record for a queue to Kafka's producer; the try takes the report.
        left_early: tells whether the broker of a try without a report is away, so that the try
            ends.
        try_again_not_store_ok: whether stored but not safely counts as a failed try.
    """

    record: PlainRecord
    choose: Callable[[int | None], tuple[MessageQueue, int | None]]
    hand_over: Callable[[PlainRecord, PlainTry], None]
    after: Callable[[float, Callable[[], None]], object]
    budget: Budget
    counters: Counters
    left_early: Callable[[PlainTry], bool] = lambda _: False
    done: deque[Any] = field(default_factory=deque)
    try_again_not_store_ok: bool = False
    result: Future[SendResult] = field(default_factory=Future)
    _tries: int = 0
    _current: PlainTry | None = None
    _is_doubtful: bool = False

    def start(self) -> Future[SendResult]:
        """Begin the first try; return the future of the result, which fails with SendError."""
        self._try()
        return self.result

    def give_up(self) -> None:
        """End the send because its time is over; does nothing when it has ended."""
        self._give_up(f"it was not confirmed within {self.budget.timeout_ms:g} ms")

    def shut_down(self) -> None:
        """End the send because the producer is shut down; does nothing when it has ended."""
        self._give_up("the producer was shut down before it was confirmed")

    def reported(self, attempt: PlainTry) -> None:
        """Take the report of a try; even an abandoned try may still store the message."""
        message = attempt.message
        if message is None:
            return
        if attempt.error is None:
            offset = message.offset()
            self._stored(_queue_of(attempt), -1 if offset is None else offset)
            attempt.message = None
        elif attempt is self._current:
            self._failed(attempt, attempt.error)

    def _give_up(self, problem: str) -> None:
        self._fail(self._error(problem, in_doubt=True))

    def _try(self) -> None:
        record = self.record  # read first: a send that ends drops its record
        if self.result.done():
            return
        self._tries += 1
        try:
            queue, broker = self.choose(self._current.broker if self._current else None)
            attempt = self._current = PlainTry(self, queue, broker, self.done)
            self.hand_over(record, attempt)
        except KafkaException as error:
            self._failed(None, error_of(error))
        except BufferError:
            self._failed(None, KafkaError(KafkaError._QUEUE_FULL))
        except RuntimeError:
            self._failed(None, KafkaError(KafkaError._STATE))  # it was closed meanwhile
        except Exception as error:
            # Any error: the caller waits for the result.
            problem = one_line(error)
            self._fail(self._error(problem, in_doubt=True) if self._is_doubtful else error)
        else:
            if self._tries < self.budget.tries_max:
                share_ms = self.budget.timeout_ms / self.budget.tries_max
                self.after(share_ms, lambda: self._leave(attempt))

    def _leave(self, attempt: PlainTry) -> None:
        """Try elsewhere when the broker of a try without a report is away."""
        if attempt is self._current and attempt.message is None and self.left_early(attempt):
            self._failed(attempt, KafkaError(KafkaError._TRANSPORT))

    def _stored(
        self, queue: MessageQueue | None, offset: int, status: SendStatus = SendStatus.SEND_OK
    ) -> None:
        result = SendResult(
            send_status=status,
            msg_id=self.record.msg_id,
            message_queue=queue,
            queue_offset=offset,
        )
        try:
            self.result.set_result(result)
        except InvalidStateError:
            return  # its time is over, or the caller cancelled it
        self._let_go()
        self.counters.add(ClientEvent.SENT)

    def _failed(self, attempt: PlainTry | None, error: KafkaError) -> None:
        code = error.code()
        status = not_safely_stored(code)
        # Never reset: that a later try is refused does not settle this one.
        self._is_doubtful = self._is_doubtful or (attempt is not None and not is_refusal(code))
        if status is not None and attempt is not None and not self.try_again_not_store_ok:
            self._stored(_queue_of(attempt), -1, status)
        elif not is_refusal(code) and self.budget.allows(self._tries, _now_ms()):
            self.counters.add(ClientEvent.SEND_RETRIED)
            self.after(PAUSE_BEFORE_TRY_MS, self._try)
        else:
            self._fail(self._error(error.str(), in_doubt=self._is_doubtful))

    def _fail(self, error: Exception) -> None:
        try:
            self.result.set_exception(error)
        except InvalidStateError:
            return
        self._let_go()
        self.counters.add(ClientEvent.SEND_FAILED)

    def _let_go(self) -> None:
        self.record, self._current = SENT_AWAY, None

    def _error(self, problem: str, *, in_doubt: bool) -> SendError:
        doubt = "It may be stored: sent again, it may be there twice."
        remedy = doubt if in_doubt else "Nothing was stored: send it again when Kafka takes it."
        return SendError(
            f"The message was not sent, in {self._tries} tries: {problem}.",
            remedy=remedy,
            tries=self._tries,
            in_doubt=in_doubt,
        )


def _queue_of(attempt: PlainTry) -> MessageQueue | None:
    """Return the queue of a try; where the key chose it, the report says which."""
    queue = attempt.queue
    if queue.queue_id != BY_KEY:
        return queue
    chosen = None if attempt.message is None else attempt.message.partition()
    return None if chosen is None or chosen < 0 else MessageQueue(queue.topic, chosen)


Choice = Callable[[int | None], tuple[MessageQueue, int | None]]


class PlainSender:
    """Sends plain messages through a Kafka producer that tries once."""

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
        self._polled.produce(is_signed=False)(
            topic=attempt.queue.topic,
            value=record.body,
            key=record.key,
            partition=attempt.queue.queue_id,
            on_delivery=attempt,
            headers=record.headers,
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


def _now_ms() -> float:
    return time.monotonic() * 1000
