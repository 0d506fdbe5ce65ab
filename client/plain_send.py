"""One plain send: its tries, one after the other, in one budget of time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as KafkaMessage

from checkback.client.budget import Budget
from checkback.client.counters import ClientEvent, Counters
from checkback.client.message import MessageQueue
from checkback.client.results import SendResult, SendStatus
from checkback.client.send_errors import error_of, is_refusal, not_safely_stored
from checkback.protocol.errors import SendError
from checkback.protocol.properties import Headers

BY_KEY: Final = -1
"""The queue id of a message whose key chooses the partition, as in every Kafka client."""
PAUSE_BEFORE_TRY_MS: Final = 100
"""Clients learn a moment later that a leader has moved; without a pause all tries would be used
up."""


@dataclass(frozen=True, kw_only=True)
class PlainRecord:
    """A plain message as it goes on the wire."""

    msg_id: str
    body: bytes
    key: bytes | None
    headers: Headers


@dataclass(eq=False)
class PlainTry:
    """One try, and the report of it that librdkafka calls.

    Args:
        send: the send that it belongs to.
        queue: where to.
        broker: the queue's leader, None where that is not known.
        done: where it puts itself when the report is there.
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
        record: what is sent.
        choose: returns queue and leader broker for the next try, given the last try's broker.
        hand_over: gives a record for a queue to Kafka's producer; the try takes the report.
        after: runs an action after a number of milliseconds.
        budget: of all tries.
        counters: told of each outcome.
        left_early: returns whether the broker of a try without a report is away.
        done: takes the reports that have come.
        try_again_not_store_ok: whether stored but not safely counts as a failed try.
    """

    record: PlainRecord
    choose: Callable[[int | None], tuple[MessageQueue, int | None]]
    hand_over: Callable[[PlainRecord, PlainTry], None]
    after: Callable[[float, Callable[[], None]], None]
    budget: Budget
    counters: Counters
    left_early: Callable[[PlainTry], bool] = lambda _: False
    done: deque[Any] = field(default_factory=deque)
    try_again_not_store_ok: bool = False
    result: Future[SendResult] = field(default_factory=Future)
    _tries: int = 0
    _current: PlainTry | None = None

    def start(self) -> Future[SendResult]:
        """Begin the first try; return the future of the result, which fails with SendError."""
        self._try()
        return self.result

    def give_up(self) -> None:
        """End the send because its time is over; does nothing when it has ended."""
        problem = f"it was not confirmed within {self.budget.timeout_ms:g} ms"
        self._fail(_send_error(problem, self._tries, in_doubt=True))

    def reported(self, attempt: PlainTry) -> None:
        """Take the report of a try; one that was left may still say that it is stored."""
        message = attempt.message
        if message is None:
            return
        if attempt.error is None:
            queue = attempt.queue
            if queue.queue_id == BY_KEY:
                queue = MessageQueue(queue.topic, message.partition() or 0)
            offset = message.offset()
            self._stored(queue, -1 if offset is None else offset)
        elif attempt is self._current:
            self._failed(attempt, attempt.error)

    def _try(self) -> None:
        if self.result.done():
            return
        self._tries += 1
        try:
            queue, broker = self.choose(self._current.broker if self._current else None)
            attempt = self._current = PlainTry(self, queue, broker, self.done)
            self.hand_over(self.record, attempt)
        except KafkaException as error:
            self._failed(None, error_of(error))
        except BufferError:
            self._failed(None, KafkaError(KafkaError._QUEUE_FULL))
        except RuntimeError:
            self._failed(None, KafkaError(KafkaError._STATE))  # it was closed meanwhile
        except Exception as error:
            self._fail(error)  # whatever it is, the caller waits for it
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
            return  # the caller was told that the time is over, or cancelled
        self.counters.add(ClientEvent.SENT)

    def _failed(self, attempt: PlainTry | None, error: KafkaError) -> None:
        code = error.code()
        status = not_safely_stored(code)
        if status is not None and attempt is not None and not self.try_again_not_store_ok:
            self._stored(attempt.queue, -1, status)
        elif not is_refusal(code) and self.budget.allows(self._tries, _now_ms()):
            self.counters.add(ClientEvent.SEND_RETRIED)
            self.after(PAUSE_BEFORE_TRY_MS, self._try)
        else:
            in_doubt = attempt is not None and not is_refusal(code)
            self._fail(_send_error(error.str(), self._tries, in_doubt=in_doubt))

    def _fail(self, error: Exception) -> None:
        try:
            self.result.set_exception(error)
        except InvalidStateError:
            return
        self.counters.add(ClientEvent.SEND_FAILED)


def _send_error(problem: str, tries: int, *, in_doubt: bool) -> SendError:
    remedy = "It may be stored: sent again, it may be there twice." if in_doubt else ""
    return SendError(
        f"The message was not sent, in {tries} tries: {problem}.",
        remedy=remedy,
        tries=tries,
        in_doubt=in_doubt,
    )


def _now_ms() -> float:
    return time.monotonic() * 1000
