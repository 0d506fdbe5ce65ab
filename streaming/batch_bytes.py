"""Bounds the bytes of a batch: lowers Spark's limit of records where records are large.

Spark's Kafka source limits a batch by its number of offsets only. So the driver looks at what
follows a batch, and tells Spark how many records the next one may read.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import ceil
from threading import Lock
from typing import Any, Final, Self

from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.logs import Offsets
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.listed_offsets import Place
from checkback.streaming.records_ahead import RecordsAhead

POINTS: Final = 8
"""Number of offsets, within what a batch would read of a partition, at which a look reads records
for their size."""
PARTITIONS: Final = 4
"""How many partitions a look reads at each of these offsets, in turn."""
LOOK_S: Final = 1.0
UNBOUND: Final = sys.maxsize
EXECUTION: Final = "org.apache.spark.sql.execution.streaming.runtime.StreamExecution"
LIMITS: Final = "uniqueSources"
"""Spark asks its source for the limit once, when a query starts, and keeps it in this variable,
which it reads before it plans each batch (StreamExecution, 4.2.0)."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BatchBytes:
    """Keeps Spark's limit of records such that a batch reads about that many bytes.

    Args:
        spark: runs one query.
        ahead: looks at the topics.
        bytes_max: about how many bytes a batch reads; UNBOUND: any number, without looking.
        events_max: how many records it reads at most, however small they are.
        has_pauses: whether Spark waits between two batches.
        clock_s: a clock that only goes forward.
    """

    spark: SparkSession
    ahead: RecordsAhead
    bytes_max: int
    events_max: int
    has_pauses: bool
    clock_s: Callable[[], float] = time.monotonic
    events: int = field(init=False)
    """How many records the next batch may read: before the first look, as many as fit for sure."""
    _lock: Lock = field(default_factory=Lock)
    _ends: Offsets = field(default_factory=dict)
    _looked_s: float = 0.0

    def __post_init__(self) -> None:
        self.events = self._allowed(self.bytes_max // self.ahead.largest)

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        settings: Settings,
        connection: Mapping[str, Any],
        admin: AdminClient,
    ) -> Self:
        """Return the bound that the settings say; none where they or this Spark want none."""
        own = {"group.id": f"{settings.application_id}-watch", **connection}
        ahead = RecordsAhead(own, settings.max_message_bytes, admin)
        is_bound = settings.batch_bytes_max > 0 and takes_limits(spark)
        bytes_max = settings.batch_bytes_max if is_bound else UNBOUND
        has_pauses = settings.trigger_interval_ms > 0
        return cls(spark, ahead, bytes_max, settings.batch_events_max, has_pauses)

    def close(self) -> None:
        """Look no more."""
        with self._lock:
            self.ahead.close()

    def look_at_start(self, store: ReadableCheckpoint, topics: Mapping[str, int]) -> None:
        """Look at what follows the last planned batch, while no query runs.

        Args:
            store: the checkpoint; a new one begins with the first records of all topics.
            topics: how many partitions each topic has that the query reads.

        Raises:
            CheckpointError: the plan of the last batch can't be read.
        """
        if self.bytes_max == UNBOUND:
            return
        last = store.last_batch("offsets")
        try:
            ends = store.planned(last).ends if last is not None else {}
            ends = ends or self.ahead.beginnings(topics)
        except BrokerError as error:
            _log.info("The sizes of the first records are unknown: %s", error)
        else:
            self.look(ends)

    def look_again(self) -> None:
        """Look once a second where Spark waits between two batches: much may come meanwhile."""
        if self.has_pauses and self._ends and self.clock_s() - self._looked_s >= LOOK_S:
            self.look()

    def look(self, ends: Offsets | None = None) -> None:
        """Look at what follows a batch's ends, and tell Spark how much of it the next may read.

        Args:
            ends: of the batch that is done; None: those of the look before.
        """
        if self.bytes_max == UNBOUND:
            return
        with self._lock:
            self._ends = ends or self._ends
            try:
                events = self._allowed(self._fitting(self._ends))
            except BrokerError as error:
                _log.info("The sizes of the records ahead are unknown: %s", error)
                # The limit must not stay low for ever after large records, nor rise at once for
                # small ones.
                events = self._allowed(2 * self.events)
            self._looked_s = self.clock_s()
            try:
                if events != self.events:
                    put_in_force(self.spark, events)
                self.events = events
            except Py4JError as error:
                _log.warning("Batches go on reading %d records at most: %s", self.events, error)

    def _allowed(self, events: int) -> int:
        return max(1, min(events, self.events_max))

    def _fitting(self, ends: Offsets) -> int:
        unread = self.ahead.unread(ends)
        reach = min(sum(unread.values()), self.events_max)
        fitting = self._fitting_of(reach, ends, unread)
        if fitting * POINTS < reach:
            # So few that all lie between two looked-at offsets: look closer.
            fitting = self._fitting_of(fitting * POINTS, ends, unread)
        return self.events_max if fitting == reach else fitting

    def _fitting_of(self, reach: int, ends: Offsets, unread: Mapping[Place, int]) -> int:
        """Return how many of that many records fit, by the sizes of some."""
        points = min(POINTS, ceil(reach * self.ahead.largest / self.bytes_max))
        if points <= 1:
            return reach
        total = sum(unread.values())
        # By number, so that each point has halves as well as ops.
        turn = cycle(sorted(unread, key=lambda place: place[::-1]))
        means = []
        for sizes in self.ahead.sizes(
            # Spark divides a limit by what is unread: it reads the same share of each partition.
            {
                place: ends[place[0]][place[1]] + unread[place] * reach * point // (total * points)
                for place in islice(turn, min(PARTITIONS, len(unread)))
            }
            for point in range(points)
        ):
            of_all = sum(size * unread[place] for place, size in sizes.items())
            means.append(of_all / sum(unread[place] for place in sizes))
        return events_within(self.bytes_max, reach, means)


def events_within(bytes_max: int, reach: int, means: Sequence[float]) -> int:
    """Return how many of the records ahead take up no more than that many bytes.

    Args:
        bytes_max: how many bytes.
        reach: how many records were looked at.
        means: the mean sizes found, at equal distances. Nobody knows where between two of them
            large records begin or end, so the larger mean counts for all records between them.
    """
    step, left, found = reach / len(means), float(bytes_max), 0.0
    for pair in zip(means, [*means[1:], means[-1]], strict=True):
        size = max(pair)
        if step * size > left:
            return int(found + left / size)
        found, left = found + step, left - step * size
    return reach


def takes_limits(spark: SparkSession) -> bool:
    """Tell whether this Spark keeps a query's limit where `put_in_force` sets it."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - no public way to classes
    try:
        jvm.java.lang.Class.forName(EXECUTION).getDeclaredField(LIMITS)
    except Py4JError as error:
        _log.warning(
            "This Spark takes no limit while a query runs; no bytes are bounded: %s", error
        )
        return False
    return True


def put_in_force(spark: SparkSession, events: int) -> None:
    """Tell the query that runs how many records its next batches may read at most.

    Raises:
        Py4JError: this Spark does not take it.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - no public way to classes
    limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(events)
    for query in spark.streams.active:
        running: Any = query._jsq  # noqa: SLF001 - nor to the variable
        execution = running.streamingQuery()
        limits = getattr(execution, LIMITS)()
        # One source reads all topics.
        getattr(execution, f"{LIMITS}_$eq")(limits.updated(limits.keys().head(), limit))
