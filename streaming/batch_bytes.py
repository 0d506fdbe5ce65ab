"""Bounds the bytes of a batch: lowers Spark's limit of records where records are large.

Spark's Kafka source limits a batch by its number of offsets only. So the driver looks ahead of the
batch that runs, and tells Spark how many records the next one may read (docs/decisions/046).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Self

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.logs import Offsets
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.listed_offsets import Place
from checkback.streaming.records_ahead import RecordsAhead

POINTS: Final = 8
"""Places in what a batch would read of a partition, at which records are read for their size."""
LOOK_S: Final = 1.0
QUERY_S_MAX: Final = 10.0
"""How long the first batch waits to hear of its query, which Spark returns meanwhile."""
GROWTH: Final = 2
"""While the same batch runs, what was seen ahead holds until this many times as much is there."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class BatchBytes:
    """Keeps Spark's limit of records such that a batch reads about that many bytes.

    Args:
        ahead: looks at the topics.
        bytes_max: how many bytes a batch reads, about.
        events_max: how many records it reads at most, however small they are.
        clock_s: a clock that only goes forward.
    """

    ahead: RecordsAhead
    bytes_max: int
    events_max: int
    clock_s: Callable[[], float] = time.monotonic
    events: int = field(init=False)
    """How many records the next batch may read."""
    _query: Future[StreamingQuery] = field(default_factory=Future)
    _lock: Lock = field(default_factory=Lock)
    _ends: Offsets | None = None
    _look_s: float = 0.0
    """Until then there is no other look from the same ends on."""
    _seen: tuple[Offsets, int] | None = None
    """From where on sizes were last looked at, and how many records there were."""

    def __post_init__(self) -> None:
        self.events = self.events_max

    @classmethod
    def of(cls, settings: Settings, connection: Mapping[str, Any]) -> Self:
        """Return the bound that the settings say.

        Args:
            settings: the pipeline's.
            connection: librdkafka's settings for the connection.
        """
        group = f"{settings.application_id}-watch"
        ahead = RecordsAhead(group, connection, settings.topics.read, settings.max_message_bytes)
        return cls(ahead, settings.batch_bytes_max, settings.batch_events_max)

    def close(self) -> None:
        """Look no more."""
        self.ahead.close()

    def begin(self, plans: ReadableCheckpoint) -> int:
        """Look ahead of the last batch that was planned; return how many records the next may read.

        Args:
            plans: the checkpoint; no query runs over it.
        """
        self._query = Future()
        try:
            last = plans.last_batch("offsets")
            ends = self.ahead.begins() if last is None else plans.planned(last).ends
            self._take_limit(ends)
        except BrokerError as error:
            _log.info("The sizes of the records ahead are unknown: %s", error)
        return self.events

    def runs(self, query: StreamingQuery) -> None:
        """Note that a query runs with the limit that `begin` returned."""
        self._query.set_result(query)

    def look(self, ends: Offsets | None, *, again: bool = False) -> None:
        """Look ahead of a batch once a second, and hand Spark the limit for the batch after it.

        Args:
            ends: where the batch that runs ends; None where none was planned yet.
            again: whether a look from the same ends on does not count, however young it is.
        """
        with self._lock:
            now_s, before = self.clock_s(), self.events
            if ends is None or (ends == self._ends and now_s < self._look_s and not again):
                return
            self._ends, self._look_s = ends, now_s + LOOK_S
            try:
                self._take_limit(ends)
                if self.events != before:
                    put_in_force(self._query.result(QUERY_S_MAX), self.events)
                    _log.info("A batch reads %d records at most, for their size", self.events)
            except (BrokerError, Py4JError, TimeoutError) as error:
                self.events, self._seen = before, None
                _log.info("Batches go on reading %d records at most: %s", before, error)

    def _take_limit(self, ends: Offsets) -> None:
        unread = self.ahead.unread(ends)
        total = sum(unread.values())
        seen = 0 if self._seen is None or self._seen[0] != ends else self._seen[1]
        if total * self.ahead.bytes_max <= self.bytes_max or total < GROWTH * seen:
            return
        reach = min(1.0, self.events_max / total)
        means = [self._mean(ends, unread, reach * point / POINTS) for point in range(POINTS)]
        found = events_within(self.bytes_max, int(reach * total), means)
        self.events, self._seen = max(1, min(found, self.events_max)), (ends, total)

    def _mean(self, ends: Offsets, unread: Mapping[Place, int], share: float) -> float:
        """Return the mean size of the records that follow that share of what is unread.

        Spark shares a limit out by what is unread in each partition, so it gets to the same share
        of each.
        """
        at = {
            place: ends[place[0]][place[1]] + int(share * count) for place, count in unread.items()
        }
        sizes = self.ahead.sizes(at)
        return sum(sizes[place] * count for place, count in unread.items()) / sum(unread.values())


def events_within(bytes_max: int, reach: int, means: Sequence[float]) -> int:
    """Return how many of the records ahead take up no more than that many bytes.

    Args:
        bytes_max: how many bytes.
        reach: how many records were looked at; those after them are taken to be like these.
        means: the mean sizes found, at equal distances. Where large records begin or end between
            two of them is not known, so the larger of the two counts for all between them.
    """
    larger = [max(1.0, *pair) for pair in zip(means, [*means[1:], means[-1]], strict=True)]
    step, left, found = reach / len(means), float(bytes_max), 0.0
    for size in larger:
        if step * size >= left:
            return int(found + left / size)
        found, left = found + step, left - step * size
    return int(found + left / (sum(larger) / len(larger)))


def put_in_force(query: StreamingQuery, events: int) -> None:
    """Tell a query how many records its next batches may read at most.

    Spark asks its source for the limit once, when the query starts, and keeps it in a variable
    that it reads before it plans each batch (StreamExecution.uniqueSources, 4.2.0).

    Raises:
        Py4JError: this Spark keeps it elsewhere.
    """
    running: Any = query._jsq  # noqa: SLF001 - no public way to the variable
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - nor to classes
    limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(events)
    execution = running.streamingQuery()
    limits = execution.uniqueSources()
    # One source reads all topics.
    getattr(execution, "uniqueSources_$eq")(limits.updated(limits.keys().head(), limit))
