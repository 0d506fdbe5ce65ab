"""One plain send: its tries, one after the other, in one budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import KafkaError

from checkback.client.budget import Budget
from checkback.client.counters import Counters, Event
from checkback.client.message import MessageQueue
from checkback.client.outcome import remark_of
from checkback.client.results import SendResult, SendStatus
from checkback.client.send_errors import is_tried_again, not_safely_stored
from checkback.protocol.errors import SendError
from checkback.protocol.properties import Headers

PAUSE_BEFORE_TRY_MS: Final = 100
"""A leader that has just moved is known a moment later; at once, all tries would be used up."""


@dataclass(frozen=True, kw_only=True)
class PlainRecord:
    """A plain message as it goes on the wire."""

    msg_id: str
    body: bytes
    key: bytes | None
    headers: Headers


@dataclass
class PlainSend:
    """The tries of one message.

    Args:
        record: what is sent.
        choose: returns queue and leader broker for the next try, given the last try's broker.
        hand_over: gives a record for a queue to Kafka's producer, returns its future.
        after: runs an action after so many milliseconds.
        budget: of all tries.
        counters: told of each outcome.
        try_again_not_store_ok: whether stored but not safely counts as a failed try.
    """

    record: PlainRecord
    choose: Callable[[int | None], tuple[MessageQueue, int | None]]
    hand_over: Callable[[PlainRecord, MessageQueue], Any]
    after: Callable[[float, Callable[[], None]], None]
    budget: Budget
    counters: Counters
    try_again_not_store_ok: bool = False
    result: Future[SendResult] = field(default_factory=Future)
    _tries: int = 0
    _broker: int | None = None

    def start(self) -> Future[SendResult]:
        """Begin the first try; return the future of the result, which fails with SendError."""
        self._try()
        return self.result

    def give_up(self) -> None:
        """End the send because its time is over; does nothing when it has ended."""
        problem = f"it was not confirmed within {self.budget.timeout_ms:g} ms"
        self._fail(_send_error(problem, self._tries, in_doubt=True))

    def _try(self) -> None:
        if self.result.done():
            return
        self._tries += 1
        try:
            queue, self._broker = self.choose(self._broker)
            sent = self.hand_over(self.record, queue)
        except KafkaError as error:
            self._failed(None, error)
        except Exception as error:
            self._fail(error)  # whatever it is, the caller waits for it
        else:
            sent.add_callback(lambda stored: self._stored(queue, stored.offset))
            sent.add_errback(lambda error: self._failed(queue, error))

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
        self.counters.add(Event.SENT)

    def _failed(self, queue: MessageQueue | None, error: BaseException) -> None:
        status = not_safely_stored(error)
        if status is not None and not self.try_again_not_store_ok:
            self._stored(queue, -1, status)
        elif is_tried_again(error) and self.budget.allows(self._tries, _now_ms()):
            self.counters.add(Event.SEND_RETRIED)
            self.after(PAUSE_BEFORE_TRY_MS, self._try)
        else:
            in_doubt = queue is not None and is_tried_again(error)
            self._fail(_send_error(remark_of(error), self._tries, in_doubt=in_doubt), error)

    def _fail(self, error: Exception, cause: BaseException | None = None) -> None:
        error.__cause__ = cause
        try:
            self.result.set_exception(error)
        except InvalidStateError:
            return
        self.counters.add(Event.SEND_FAILED)


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
