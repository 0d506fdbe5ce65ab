"""A message that waits for the end of its database transaction.

The message takes the steps of `TransactionMQProducer.send_message_in_transaction`. The
application's own code takes the place of a listener's local transaction.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, cast

from checkback.client.kafka.delivery_reports import ThreadReport
from checkback.client.listener import CallbackResult, LocalTransactionState
from checkback.client.results import TransactionSendResult
from checkback.client.sending.steps import LearnTopic, Request, RunListener, Steps
from checkback.protocol.errors import SendError

Perform = Callable[[Request], object]
"""Does what a step asks for, and returns what the step waits for."""


class SharedReport(ThreadReport):
    """A delivery report, which a thread or an event loop may wait for."""

    __slots__ = ("_guard", "_is_awake", "_then")

    def __init__(self, done: deque[Any]) -> None:
        super().__init__(done)
        self._guard = threading.Lock()
        self._is_awake = False
        self._then: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Wake the waiting thread, and call what was given to `when_awake`."""
        super().wake()
        with self._guard:
            self._is_awake = True
            then, self._then = self._then, []
        for follow in then:
            follow()

    def when_awake(self, follow: Callable[[], None]) -> None:
        """Call a function once the report is there, in the polling thread; now if it is there."""
        with self._guard:
            if not self._is_awake:
                self._then.append(follow)
                return
        follow()

    def wait(self, timeout_s: float) -> None:
        """Wait for the report, at most this long."""
        if not self._is_awake:
            super().wait(timeout_s)


def awaited(request: Request | None) -> tuple[SharedReport, float] | None:
    """Return the report that a step waits for, and how long; None if it waits for no report."""
    if request is None or isinstance(request, (LearnTopic, RunListener)):
        return None
    return cast("tuple[SharedReport, float]", request)


class InFlight(Protocol):
    """Counts messages that have not ended, for a shutdown."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class SentMessage:
    """A sent message, which its transaction will deliver or roll back.

    Args:
        topic: the real topic.
        transaction_id: of its half.
        steps: the steps of its transaction.
        in_flight: counts it while its end is open.

    Attributes:
        transaction_id: of its half. It changes once where a broker fails and the half is stored
            elsewhere; it is final when the database transaction commits.
        result: how it ended and where the half stands; None while that is open.
    """

    def __init__(self, topic: str, transaction_id: str, steps: Steps, in_flight: InFlight) -> None:
        self.topic = topic
        self.transaction_id = transaction_id
        self.result: TransactionSendResult | None = None
        self._steps = steps
        self._in_flight = in_flight
        # A copy: a span that is current in a step must not be current in the caller's code.
        self._context = contextvars.copy_context()
        self._request: Request | None = None
        self._error: BaseException | None = None
        in_flight.__enter__()
        self._go_on(lambda: next(steps))

    def __repr__(self) -> str:
        return f"SentMessage(topic={self.topic!r}, transaction_id={self.transaction_id!r})"

    def send_half(self, perform: Perform) -> None:
        """Send the half; ask the brokers about its topic first if that is unknown.

        Raises:
            BrokerError: this user may not describe it, or Kafka does not answer.
            InvalidMessageError: the message is too large for it.
            NotFoundError: there is no such topic.
            SendError: librdkafka does not take the half.
        """
        while isinstance(self._request, LearnTopic):
            self._perform_next(perform)

    def store(self, perform: Perform) -> None:
        """Wait until the half is stored by all replicas.

        Raises:
            SendError: it was not, or that is not known: the transaction must not commit.
        """
        while self._request is not None and not isinstance(self._request, RunListener):
            self._perform_next(perform)
        if self._error is not None:
            raise self._error
        if self._request is None:
            raise SendError(
                f"The half message of {self.transaction_id} is not safely stored.",
                remedy="Run the transaction again when Kafka has all replicas.",
                transaction_id=self.transaction_id,
                in_doubt=True,
            )

    def end(self, state: LocalTransactionState, remark: str = "") -> None:
        """Send the op; where the half is not stored yet, once its report comes."""
        request = self._request
        if isinstance(request, RunListener):
            self._go_on(lambda: self._steps.send(CallbackResult(state, remark)))
        elif (waited := awaited(request)) is not None:
            waited[0].when_awake(lambda: self._end_late(state, remark))
        elif request is not None:
            self._close()

    def _end_late(self, state: LocalTransactionState, remark: str) -> None:
        """End the transaction in the polling thread, now that the half's report is there."""
        try:
            self._perform_next(lambda _: None)
        except SendError:
            return
        if isinstance(self._request, RunListener):
            self.end(state, remark)
        elif self._request is not None:  # the half would be tried elsewhere
            self._close()

    def _perform_next(self, perform: Perform) -> None:
        request = self._request
        if request is None:
            return
        try:
            found = perform(request)
        except BaseException as error:
            raised = error
            self._go_on(lambda: self._steps.throw(raised))
        else:
            self._go_on(lambda: self._steps.send(found))

    def _go_on(self, step: Callable[[], Request]) -> None:
        """Take the next step, and note what it asks for."""
        try:
            self._request = request = self._context.run(step)
        except StopIteration as end:
            self._ended(end.value)
        except BaseException as error:
            self._error = error
            self._ended(None)
            raise
        else:
            if isinstance(request, RunListener):
                self.transaction_id = request.message.transaction_id

    def _close(self) -> None:
        self._context.run(self._steps.close)
        self._ended(None)

    def _ended(self, result: TransactionSendResult | None) -> None:
        self._request, self.result = None, result
        self._in_flight.__exit__(None, None, None)
