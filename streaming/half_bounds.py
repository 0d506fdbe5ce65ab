"""Tells which half offsets the ops of a batch can name: those that stood when it was planned.

An op can name no half behind the half topic's end: whoever sends an op has the offset of its half
from the brokers, and nobody can have been told that offset. And no op can decide about a half that
has been read, if the state remembers nothing of it: the half was refused, or its verdict is
forgotten. So the decoding refuses ops that name an offset behind the end, or one before the first
page of which the state remembers something (docs/decisions/query.md#op-range).

Both move on, but a replay has to decide as the first try did. So the checkpoint notes them, the end
some pages ahead. A batch needs a new note only if the topic has grown past the last one, if the
state remembers nothing more of some pages, if the brokers do not answer, or if the batch is the
first one of a run. The newest note up to a batch holds for it: the first page with something
remembered only moves forward, because no earlier half is read any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark import SparkContext

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.listed_offsets import listed_offsets
from checkback.streaming.batch_notes import BatchNotes
from checkback.streaming.read_until import BatchPlans

FOLDER: Final = "half_bounds"
PAGES_AHEAD: Final = 64
"""Pages behind a partition's end that an op may name, and that may be forgotten before it may no
longer name them. More of them mean fewer notes: at 1,000 halves a second in a partition one is good
for four minutes."""
TIMEOUT_S: Final = 10.0


class HalfRange(NamedTuple):
    """Offsets of a partition of the half topic: the first one, and the one after the last."""

    first: int
    end: int


HalfRanges = Mapping[int, HalfRange]
"""By partition, the offsets that an op may name: any if the partition is missing."""


def half_log_ends(admin: AdminClient, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
    """Return the offset after the last record of each partition; nothing if brokers are silent.

    An open transaction's records count: an op can't name them, but a later one may.
    """
    places = [(topic, number) for number in partitions]
    latest, every = OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED
    try:
        found = listed_offsets(admin, places, latest, every, TIMEOUT_S, retry_s=TIMEOUT_S)
    except BrokerError:
        return {}
    return {number: found[topic, number] for number in partitions}


RANGES: Final = "checkback.op_ranges"
"""The local property that carries the ranges to the tasks of a batch, for OpRange.java."""
ANY_HALF: Final = HalfRange(0, 2**63 - 1)


def set_op_ranges(context: SparkContext, ranges: HalfRanges) -> None:
    """Set for the tasks of a batch which offsets its ops may name, before any of them runs."""
    partitions = (ranges.get(number, ANY_HALF) for number in range(max(ranges, default=-1) + 1))
    context.setLocalProperty(RANGES, ",".join(f"{first}:{end}" for first, end in partitions))


@dataclass(slots=True)
class HalfBounds:
    """Decides which offsets the ops of a batch may name; one object for each run of a query.

    Args:
        store: the checkpoint, which holds the notes.
        look: returns the ends of these partitions of the half topic, nothing if they are unknown.
        first_pages: returns the first page of each partition of which the state remembers
            something; None before that is known.
        is_begun: tells whether anything of a batch is written.
        topics: the names of the topics.
        page_size: half offsets per page.
    """

    store: CheckpointStore
    look: Callable[[Collection[int]], Mapping[int, int]]
    first_pages: Callable[[], Mapping[int, int] | None]
    is_begun: Callable[[int], bool]
    topics: TopicNames
    page_size: int
    _noted: HalfRanges | None = field(default=None)

    def of_batch(self, batch_id: int, plans: BatchPlans) -> HalfRanges:
        """Return them for a batch that is planned; nothing for one without ops.

        Args:
            batch_id: Spark's number of it.
            plans: its plan and the one before.

        Raises:
            CheckpointError: a note can't be read.
            PrerequisiteError: it can't be written.
            BrokerError: the markers can't be read.
        """
        if not plans.reads(self.topics.op):
            return {}
        planned_ms, known = plans.batch.timestamp_ms, self._noted
        if known is None and plans.is_first and self.is_begun(batch_id):
            self._noted = self._note_for(batch_id, planned_ms)
        else:
            found = self._look(plans)
            if known is None or not _holds(known, found, self._ahead):
                self._noted = self._note(batch_id, planned_ms, found)
        return self._noted or {}

    def _look(self, plans: BatchPlans) -> HalfRanges:
        topic, pages = self.topics.half, self.first_pages()
        read = {} if plans.before is None else plans.before.ends.get(topic, {})

        def first(partition: int) -> int:
            if pages is None or partition not in read:
                return 0
            page = pages.get(partition)
            return read[partition] if page is None else min(page * self.page_size, read[partition])

        ends = self.look(plans.batch.ends.get(topic, {}))
        return {number: HalfRange(first(number), end) for number, end in ends.items()}

    @property
    def _ahead(self) -> int:
        return PAGES_AHEAD * self.page_size

    def _note(self, batch_id: int, planned_ms: int, found: HalfRanges) -> HalfRanges:
        ahead = {number: (first, end + self._ahead) for number, (first, end) in found.items()}
        return self._notes.write(batch_id, planned_ms, ahead)

    def _note_for(self, batch_id: int, planned_ms: int) -> HalfRanges:
        """Return what the newest note up to a batch says, nothing if there is none."""
        for number in sorted(self._notes.numbers(), reverse=True):
            if number == batch_id:
                noted = self._notes.of_plan(batch_id, planned_ms)
            else:
                earlier = self._notes.read(number) if number < batch_id else None
                noted = None if earlier is None else earlier[1]
            if noted is not None:
                return noted
        return {}

    @property
    def _notes(self) -> BatchNotes[HalfRanges]:
        return BatchNotes(self.store, FOLDER, "planned_ms", "halves", _parsed)


def _parsed(said: Any) -> HalfRanges:
    return {int(number): HalfRange(int(first), int(end)) for number, (first, end) in said.items()}


def _holds(known: HalfRanges, found: HalfRanges, ahead: int) -> bool:
    """Tell whether a note still holds. One of silent brokers lets every op pass."""
    if not found:
        return not known
    return all(
        number in known and end <= known[number].end and first < known[number].first + ahead
        for number, (first, end) in found.items()
    )
