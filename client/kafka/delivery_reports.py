"""A librdkafka producer, the thread that polls it, and those who wait for its reports.

librdkafka delivers a report inside poll(). The polling thread wakes the waiting ones only after the
poll: a thread that wakes during the poll competes with it for the interpreter.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import MethodDescriptorType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.cimpl import Producer

from checkback.client.kafka.errors import cause_of

_log = logging.getLogger(__name__)

POLL_S: Final = 0.15
DRAIN_LOOK_S: Final = 0.005
JOIN_S: Final = 1.0


class DeliveryReport(ABC):
    """Waits for the report of one record; never used for a second one.

    Args:
        done: where it puts itself when the report is there.
    """

    __slots__ = ("_done", "error", "message")

    def __init__(self, done: deque[Any]) -> None:
        self._done = done
        self.error: KafkaError | None = None
        self.message: Message | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take the report; called inside the poll."""
        self.error = error
        self.message = message
        self._done.append(self)

    @abstractmethod
    def wake(self) -> None:
        """Wake the waiter; called after the poll."""

    @abstractmethod
    def wait(self, timeout_s: float) -> Any:
        """Wait for the report, at most this long; awaited in an event loop."""


class ThreadReport(DeliveryReport):
    """A report that one thread waits for."""

    __slots__ = ("_lock",)

    def __init__(self, done: deque[Any]) -> None:
        super().__init__(done)
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """Let the thread go on."""
        self._lock.release()

    def wait(self, timeout_s: float) -> None:
        """Wait for the report, at most this long."""
        self._lock.acquire(timeout=timeout_s)


def _produce_named_headers(
    watched: Callable[..., None], *, headers: Iterable[tuple[str, Any]], **others: Any
) -> None:
    """Send a record through an agent; Datadog's writes its headers by name, which a list refuses.

    No name is there twice, and a dict keeps their order.
    """
    watched(headers=dict(headers), **others)


def _produce_of(producer: Any, *, is_signed: bool) -> Callable[..., None]:
    """Return what sends a record of a producer.

    Agents that watch applications derive from librdkafka's producer, with arguments in another
    order, and put headers among the record's. The signature of a signed record would not fit
    any more, and no report says which headers were sent: librdkafka's own method sends it.
    """
    watched: Callable[..., None] = producer.produce
    if not is_signed:
        is_derived = isinstance(producer, Producer) and type(producer) is not Producer
        return partial(_produce_named_headers, watched) if is_derived else watched
    for kind in type(producer).__mro__:
        own = vars(kind).get("produce")
        if type(own) is MethodDescriptorType:  # an agent's wrapper claims to be an instance
            return partial(own, producer)
    return watched


class PolledProducer:
    """Owns a producer and polls it in a daemon thread. Threads may share it.

    Args:
        sample: called after a poll with one of the records that it reported as stored.
        pause_s: pause between two polls, where no caller waits for the reports.
        is_signed: whether the records have signatures.

    Attributes:
        produce: sends a record; its arguments are given by name.
    """

    def __init__(
        self,
        open_producer: Callable[[], Any],
        name: str,
        sample: Callable[[Message], None] | None = None,
        pause_s: float = 0,
        *,
        is_signed: bool = False,
    ) -> None:
        self.producer: Any = open_producer()  # its published types lack close()
        self.produce = _produce_of(self.producer, is_signed=is_signed)
        self.done: deque[Any] = deque()
        self._sample = sample
        self._pause_s = pause_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def hand_over(self, **record: Any) -> KafkaError | None:
        """Give a record to librdkafka; return why it did not take it, None when it did."""
        try:
            self.produce(**record)
        except KafkaException as error:
            return cause_of(error)
        except BufferError:
            return KafkaError(KafkaError._QUEUE_FULL)
        except RuntimeError:
            return KafkaError(KafkaError._STATE)  # it was closed meanwhile
        return None

    def abandon(self) -> None:
        """Have the polling thread close a producer that librdkafka gave up."""
        self._closing.set()

    def close(self, timeout_s: float) -> int:
        """Send what waits, then close; return how many records it had no time to send."""
        deadline_s = time.monotonic() + timeout_s
        # The callback of a send may shut its producer down, in the thread that polls.
        is_polling = threading.current_thread() is self._thread
        while (left := len(self.producer)) and time.monotonic() < deadline_s:
            if is_polling:
                self.producer.poll(DRAIN_LOOK_S)
            else:
                time.sleep(DRAIN_LOOK_S)
        self._closing.set()
        if not is_polling:
            self._thread.join(JOIN_S)
        return left

    def _run(self) -> None:
        poll, done, closing = self.producer.poll, self.done, self._closing
        while not closing.is_set():
            try:
                poll(POLL_S)
                if done:
                    self._wake()
                if self._pause_s:
                    closing.wait(self._pause_s)
            except:  # noqa: E722 - without this thread no report would ever come again
                # Also catches SystemExit of a callback, and objects that confluent-kafka raises
                # although they are no exceptions.
                _log.exception("A report of librdkafka could not be handled")
        self.producer.purge()
        poll(0)
        self._wake()
        self.producer.close()

    def _wake(self) -> None:
        done = self.done
        if self._sample is not None and done:
            self._take_sample(done[0])
        while done:
            done.popleft().wake()

    def _take_sample(self, report: Any) -> None:
        if self._sample is None or report.error is not None or report.message is None:
            return
        try:
            self._sample(report.message)
        except Exception:  # those who wait are woken all the same
            _log.exception("Nothing was learned from a record that was stored")
