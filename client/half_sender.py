"""Stores half messages: synchronously, acknowledged by all replicas, at most once.

On one partition, Kafka's idempotent producer repeats what it must. Another partition is tried only
when the first certainly has nothing: then there is never a second half with the same id, which
a check would commit as well (RocketMQ #9909).
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError

from checkback.client.broker_clock import BrokerClock
from checkback.client.budget import Budget
from checkback.client.counters import Counters, Event
from checkback.client.kafka_channel import Channel, RenewedChannel
from checkback.client.outcome import remark_of
from checkback.client.queue_selection import choose_partition
from checkback.client.results import SendStatus
from checkback.client.send_errors import is_tried_again
from checkback.protocol.errors import BrokerError, SendError
from checkback.protocol.properties import Headers

NOT_RUN: Final = "The local transaction did not run."
LEAST_SHARE_OF_A_TRY: Final = 0.2
"""Of the budget. A try with less would end in doubt for want of time, not of a broker."""


@dataclass(frozen=True, slots=True)
class StoredHalf:
    """Where a half was stored, and how safely.

    Args:
        partition: of the half topic.
        offset: in it, -1 where the status leaves it open.
        status: SEND_OK, or how the leader said that the replicas are behind.
        stored_at_ms: when, by the broker's clock, milliseconds since the epoch.
    """

    partition: int
    offset: int
    status: SendStatus = SendStatus.SEND_OK
    stored_at_ms: int = -1


@dataclass(frozen=True, slots=True)
class HalfRecord:
    """A half as it goes on the wire."""

    body: bytes
    key: bytes | None
    headers: Headers


class _Try:
    """One hand-over of a half to Kafka's producer, and the wait for what comes of it."""

    def __init__(self, channel: Channel, topic: str, partition: int) -> None:
        self.channel = channel
        self.partition = partition
        self._topic = topic
        self._woken = threading.Event()
        self._sent: Any = None

    def run(self, half: HalfRecord, timeout_s: float) -> StoredHalf | None:
        """Send and wait; None when the partition was barred, so that it certainly has nothing.

        Raises:
            KafkaError: Kafka's producer gave up.
            TimeoutError: it did not in time.
        """
        watch = self.channel.watch
        self._begun = watch.begin(self.partition, self._woken.set)
        try:
            return self._wait(half, timeout_s)
        finally:
            watch.end(self.partition, self._woken.set)

    def in_doubt(self) -> bool:
        """Tell whether the half may have been stored by a try that failed."""
        return self.channel.watch.in_doubt(self.partition, self._begun)

    def withdraw(self) -> bool:
        """Take back what was handed over; tell whether that came before it was sent."""
        return self.channel.watch.withdraw(self.partition, self._begun)

    def refused(self, error: KafkaError) -> bool:
        """Tell whether the broker refused this half, and would again.

        One refusal breaks kafka-python's idempotent producer: whatever else it holds fails with
        the same error, without ever having been sent.
        """
        if is_tried_again(error):
            return False
        return self.channel.watch.rejected(self.partition, self._begun)

    def _wait(self, half: HalfRecord, timeout_s: float) -> StoredHalf | None:
        self._sent = self.channel.producer.send(
            self._topic, half.body, half.key, half.headers, self.partition
        )
        self._sent.add_both(lambda _: self._woken.set())
        if self.channel.watch.barred(self.partition):
            self._woken.set()
        self._woken.wait(timeout_s)
        if self._sent.is_done:
            stored = self._sent.get(0)
            return StoredHalf(stored.partition, stored.offset, stored_at_ms=stored.timestamp)
        if self._woken.is_set():
            return None
        raise TimeoutError


class HalfSender:
    """Writes half messages, round robin over the partitions.

    Args:
        channel: holds an idempotent Kafka producer.
        half_topic: where to.
        counters: tries again and doubts are counted.
        clock: learns the brokers' time.
        budget_ms: time for all tries of one half.
        tries_max: how many tries there are in it.
        avoid_faults: whether slow and failing brokers are left alone for a while.
    """

    def __init__(
        self,
        channel: RenewedChannel,
        half_topic: str,
        counters: Counters,
        clock: BrokerClock,
        *,
        budget_ms: int,
        tries_max: int,
        avoid_faults: bool,
    ) -> None:
        self._channel = channel
        self._half_topic = half_topic
        self._counters = counters
        self._clock = clock
        self._budget_ms = budget_ms
        self._tries_max = tries_max
        self._faults = channel.faults if avoid_faults else None
        self._turns = itertools.count()

    def send(self, half: HalfRecord) -> StoredHalf:
        """Store a half and return where, or how unsafely.

        Raises:
            SendError: it was not stored; with the field ``in_doubt`` true: it may have been, and
                if so a check will ask for it.
        """
        least_ms = self._budget_ms * LEAST_SHARE_OF_A_TRY
        budget = Budget(_now_ms(), self._budget_ms, self._tries_max, least_ms)
        barred: set[int] = set()
        tries = 0
        problem = "no time was left"
        while budget.allows(tries, _now_ms()):
            if tries:
                self._counters.add(Event.SEND_RETRIED)
            tries += 1
            attempt = self._next_try(barred, budget)
            stored, problem = self._run(attempt, half, budget)
            if stored is not None:
                return stored
            barred.add(attempt.partition)
        raise self._not_stored(problem)

    def _next_try(self, barred: set[int], budget: Budget) -> _Try:
        try:
            channel = self._channel.current(budget.remaining_ms(_now_ms()) / 1000)
            leaders = channel.leaders(self._half_topic)
        except BrokerError as error:
            raise self._not_stored(str(error)) from error
        partition = choose_partition(
            leaders,
            next(self._turns),
            barred=frozenset(barred),
            faults=self._faults,
            now_ms=_now_ms(),
        )
        return _Try(channel, self._half_topic, partition)

    def _run(
        self, attempt: _Try, half: HalfRecord, budget: Budget
    ) -> tuple[StoredHalf | None, str]:
        """Run one try. No half but a problem: it may be tried again elsewhere."""
        try:
            stored = attempt.run(half, budget.remaining_ms(_now_ms()) / 1000)
        except TimeoutError as error:
            self._channel.retire(attempt.channel)
            return self._given_up(attempt, error, certain=attempt.withdraw()), ""
        except KafkaError as error:
            self._channel.retire(attempt.channel)
            certain = not attempt.in_doubt()
            if certain and not attempt.refused(error):
                return None, remark_of(error)
            return self._given_up(attempt, error, certain=certain), ""
        if stored is None:
            self._channel.retire(attempt.channel)
            return None, f"partition {attempt.partition} has too few replicas"
        self._clock.learn(stored.stored_at_ms, time.time() * 1000)
        return stored, ""

    def _given_up(self, attempt: _Try, error: Exception, *, certain: bool) -> StoredHalf:
        """Return a half that is stored, but not safely.

        Raises:
            SendError: it is certainly not stored, or nobody knows.
        """
        if certain:
            raise self._not_stored(remark_of(error)) from error
        self._counters.add(Event.SEND_IN_DOUBT)
        status = attempt.channel.watch.status(attempt.partition)
        if status is not None:
            return StoredHalf(attempt.partition, -1, status)
        raise SendError(
            f"It is in doubt whether the half message was stored: {remark_of(error)}. {NOT_RUN}",
            remedy="Send the message anew when Kafka answers; a check settles the doubtful one.",
            in_doubt=True,
            partition=attempt.partition,
        ) from error

    def _not_stored(self, problem: str) -> SendError:
        self._counters.add(Event.SEND_FAILED)
        return SendError(
            f"The half message was not stored: {problem}. {NOT_RUN}",
            remedy="Send it again when Kafka takes messages.",
            in_doubt=False,
        )


def _now_ms() -> float:
    return time.monotonic() * 1000
