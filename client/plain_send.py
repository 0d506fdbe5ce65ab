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
from checkback.client.callback_result import remark_of
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


SENT_AWAY: Final = PlainRecord(msg_id="", body=b"", key=None, headers=[])
"""Stands in a send that has ended: timers keep the send for a while, and need not keep a body."""


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
        left_early: tells whether the broker of a try without a report is away, so that the try
            ends.
        done: takes the reports that have come.
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
        record = self.record  # before the look at the result: afterwards it may be gone
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
            # Whatever it is, the caller waits for it.
            problem = remark_of(error)
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
            return  # the caller was told that the time is over, or cancelled
        self._let_go()
        self.counters.add(ClientEvent.SENT)

    def _failed(self, attempt: PlainTry | None, error: KafkaError) -> None:
        code = error.code()
        status = not_safely_stored(code)
        # For good: a later try that is refused says nothing of this one.
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


def _now_ms() -> float:
    return time.monotonic() * 1000
