"""Holds the end of a batch until the next one has something to do (docs/decisions/query.md).

Spark runs a batch after each batch, also without data, because time may have passed for a page. So
the sink holds the end of a batch that read nothing and called no page, until a record comes, or
until the first page is due. The batch before it is committed, so readers of the state miss
nothing; a crash meanwhile repeats a batch that does nothing.

With a trigger interval every batch is held until the interval is over. Spark's own trigger waits by
the wall clock: set back by an hour, it would make no batch for an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.decided import partition_note
from checkback.sinks.kafka.read.list_offsets import by_place
from checkback.sinks.records.source_record import readable_headers

SLEEP_S_MAX: Final = 20.0
"""Longer, and Spark would end its Python workers, which costs the next batch a second."""
LOOK_S: Final = 0.2
"""How long it takes a sleeper at most to notice a stop, or that the clock was set."""
WATCH: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "latest",
    # The brokers keep an empty fetch for this long, unless a record comes. A fetch may have left
    # before all partitions had a place in it, and the others wait for its end: with 10 s a lone
    # commit was seen ten seconds late on a busy machine.
    "fetch.wait.max.ms": 500,
    # The first record is enough; the pause that librdkafka makes for a full queue is not wanted.
    "fetch.message.max.bytes": 1_024,
    "fetch.queue.backoff.ms": 0,
}


@dataclass(slots=True)
class RecordWatch:
    """Waits for the first record after given offsets; reads nothing the rest of the time.

    Args:
        group: names the consumer; it joins no group.
        decided_topic: a relay writes marks there every second, which are no reason to wake.
    """

    group: str
    connection: Mapping[str, Any]
    decided_topic: str = ""
    _consumer: Consumer | None = None

    def begin(self, ends: Offsets) -> None:
        """Watch from these offsets on."""
        if self._consumer is None:
            own = {"group.id": self.group, **WATCH}
            self._consumer = Consumer({**self.connection, **own})
        places = by_place(ends).items()
        self._consumer.assign([TopicPartition(*place, end) for place, end in places])

    def sees_record(self, wait_s: float) -> bool:
        """Wait up to a timeout for a record; true for an error, too, which Spark will report."""
        record = None if self._consumer is None else self._consumer.poll(wait_s)
        return record is not None and not self._is_note(record)

    def _is_note(self, record: Message) -> bool:
        if record.error() is not None or record.topic() != self.decided_topic:
            return False
        return partition_note(readable_headers(record), record.value()) is not None

    def end(self) -> None:
        """Stop watching."""
        if self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.unassign()

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


@dataclass(slots=True)
class Idling:
    """Holds the end of a batch as long as the next would come too early.

    Args:
        stopping: set when the job is to end.
        next_wake_ms: returns the time after which a page has something to do, None if no page ever
            has.
        interval_s: least time from the end of a batch to that of the next.
        now_ms: the wall clock, by which pages wake.
        steady_s: a clock that can't be set.
    """

    watch: RecordWatch
    stopping: Event
    next_wake_ms: Callable[[], int | None]
    interval_s: float
    now_ms: Callable[[], int]
    steady_s: Callable[[], float] = time.monotonic
    _held_ms: dict[int, int] = field(default_factory=dict)
    _let_go_s: float = field(init=False)
    """When the batch before ended, or the run began, by the clock that can't be set."""

    def __post_init__(self) -> None:
        self._let_go_s = self.steady_s()

    def hold(self, batch_id: int, ends: Offsets, *, did_nothing: bool) -> None:
        """Return when the next batch may come.

        Args:
            did_nothing: whether the batch that ends there read nothing and called no page.
        """
        begun_s = self.steady_s()
        if did_nothing:
            self._sleep(ends, begun_s + SLEEP_S_MAX)
        self.stopping.wait(max(0.0, self._let_go_s + self.interval_s - self.steady_s()))
        self._let_go_s = self.steady_s()
        self._held_ms = {
            batch_id - 1: self.held_ms_of(batch_id - 1),
            batch_id: int((self._let_go_s - begun_s) * 1_000),
        }

    def held_ms_of(self, batch_id: int) -> int:
        """Return how long one of the last two batches was held, 0 for any other."""
        return self._held_ms.get(batch_id, 0)

    def _sleep(self, ends: Offsets, until_s: float) -> None:
        try:
            self._wait(ends, until_s)
        except KafkaException:
            self.stopping.wait(LOOK_S)  # Spark's next batch says what is wrong
        finally:
            # In the thread that reads: librdkafka's consumer can't be closed beside it.
            (self.watch.close if self.stopping.is_set() else self.watch.end)()

    def _wait(self, ends: Offsets, until_s: float) -> None:
        """Wait until a page is due, the job is to stop, a record comes, or the time has come."""
        wake_ms, has_begun = self.next_wake_ms(), False
        while not self.stopping.is_set():
            # A page is called in the first batch that is later than its time.
            due_s = LOOK_S if wake_ms is None else (wake_ms + 1 - self.now_ms()) / 1_000
            wait_s = min(LOOK_S, due_s, until_s - self.steady_s())
            if wait_s <= 0:
                return
            if not has_begun:
                self.watch.begin(ends)
                has_begun = True
            if self.watch.sees_record(wait_s):
                return
