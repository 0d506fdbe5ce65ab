"""Lets a pipeline sleep while there is nothing to do (docs/decisions/query.md#idle).

Spark runs a batch after each batch, also without data, because time may have passed for a page. So
the sink holds the end of a batch that read nothing and called no page, until a record comes, or
until the first page is due. The batch before it is committed, so nobody who reads the state misses
anything; a crash meanwhile repeats a batch that does nothing.

At a low steady rate, batches of a few records are spaced out, for each costs a third of a second of
a core. The first few after a quiet time are not: a lone commit does not wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from checkback.checkpoints.logs import Offsets

SLEEP_S_MAX: Final = 20.0
"""Longer, and Spark would end its Python workers, which costs the next batch a second."""
LOOK_S: Final = 0.2
"""How long it takes a sleeper at most to notice a stop, or that the clock was set."""
WATCH: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
    # The brokers keep an empty fetch for this long, unless a record comes.
    "fetch.wait.max.ms": 10_000,
    # The first record is enough; the pause that librdkafka makes for a full queue is not wanted.
    "fetch.message.max.bytes": 1_024,
    "fetch.queue.backoff.ms": 0,
}
SMALL_BATCH: Final = 50
"""Largest number of records of a small batch; larger batches are worth their cost, and run without
pauses."""
BATCHES_AT_ONCE: Final = 4.0
BATCHES_PER_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """What a batch did.

    Args:
        batch_id: Spark's number of it.
        ends: where it ended, by topic and partition.
        records: halves and ops that it read.
        did_nothing: whether it read nothing and called no page.
    """

    batch_id: int
    ends: Offsets
    records: int
    did_nothing: bool


@dataclass(slots=True)
class RecordWatch:
    """Waits for the first record after given offsets; reads nothing the rest of the time.

    Args:
        group: names the consumer; it joins no group.
        connection: librdkafka's settings for the connection.
    """

    group: str
    connection: Mapping[str, Any]
    _consumer: Consumer | None = None

    def begin(self, ends: Offsets) -> None:
        """Watch from these offsets on."""
        if self._consumer is None:
            own = {"group.id": self.group, **WATCH}
            self._consumer = Consumer({**self.connection, **own})
        self._consumer.assign(
            [
                TopicPartition(topic, number, end)
                for topic, partitions in ends.items()
                for number, end in partitions.items()
            ]
        )

    def sees_record(self, wait_s: float) -> bool:
        """Wait up to a timeout for a record; true for an error, too, which Spark will report."""
        return self._consumer is not None and self._consumer.poll(wait_s) is not None

    def end(self) -> None:
        """Watch nothing."""
        if self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.unassign()

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


@dataclass(slots=True)
class BatchAllowance:
    """How many small batches may follow each other without a pause.

    Args:
        now_s: a clock that only goes forward.
    """

    now_s: Callable[[], float] = time.monotonic
    _left: float = BATCHES_AT_ONCE
    _seen_s: float | None = None

    def pause_s(self) -> float:
        """Take one batch; return how long to wait before the next."""
        now_s = self.now_s()
        since_s = 0.0 if self._seen_s is None else now_s - self._seen_s
        self._seen_s = now_s
        self._left = min(BATCHES_AT_ONCE, self._left + since_s * BATCHES_PER_S) - 1.0
        return max(0.0, -self._left / BATCHES_PER_S)


@dataclass(slots=True)
class Idling:
    """Holds the end of a batch as long as the next would come too early.

    Args:
        watch: sees the first new record.
        stopping: set when the job is to end.
        next_wake_ms: returns the time after which a page has something to do, None if no page ever
            has; raises LookupError as long as that is not known.
        spaces_out: whether small batches are spaced out.
        now_ms: the wall clock, by which pages wake.
    """

    watch: RecordWatch
    stopping: Event
    next_wake_ms: Callable[[], int | None]
    spaces_out: bool
    now_ms: Callable[[], int]
    allowance: BatchAllowance = field(default_factory=BatchAllowance)
    _held_ms: dict[int, int] = field(default_factory=dict)

    def hold(self, batch: FinishedBatch) -> None:
        """Return when the next batch may come."""
        begun_s = time.monotonic()
        if batch.did_nothing:
            self._sleep(batch.ends, begun_s + SLEEP_S_MAX)
        elif self.spaces_out and 0 < batch.records < SMALL_BATCH:
            pause_s = self.allowance.pause_s()
            if pause_s:
                self._wait(begun_s + pause_s, self._sleep_blindly)
        self._held_ms = {
            batch.batch_id - 1: self.held_ms_of(batch.batch_id - 1),
            batch.batch_id: int((time.monotonic() - begun_s) * 1_000),
        }

    def held_ms_of(self, batch_id: int) -> int:
        """Return how long one of the last two batches was held, 0 for any other."""
        return self._held_ms.get(batch_id, 0)

    def _sleep(self, ends: Offsets, until_s: float) -> None:
        try:
            self._wait(until_s, self.watch.sees_record, lambda: self.watch.begin(ends))
        except KafkaException:
            self._sleep_blindly(LOOK_S)  # Spark's next batch says what is wrong
        finally:
            # In the thread that reads: librdkafka's consumer can't be closed beside it.
            (self.watch.close if self.stopping.is_set() else self.watch.end)()

    def _sleep_blindly(self, wait_s: float) -> bool:
        return self.stopping.wait(wait_s)

    def _wait(
        self,
        until_s: float,
        is_over: Callable[[float], bool],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until a page is due, the job is to stop, it is over, or the time has come."""
        try:
            wake_ms = self.next_wake_ms()
        except LookupError:
            return
        has_begun = False
        while not self.stopping.is_set():
            # A page is called in a batch whose time is later than its own.
            due_s = LOOK_S if wake_ms is None else (wake_ms + 1 - self.now_ms()) / 1_000
            wait_s = min(LOOK_S, due_s, until_s - time.monotonic())
            if wait_s <= 0:
                return
            if not has_begun:
                begin()
                has_begun = True
            if is_over(wait_s):
                return
