"""Tells which half offsets the ops of a batch can name: those written when it was planned.

Whoever sends an op has the offset of its half from the brokers. So an op that a batch reads, and
that names an offset behind the half topic's end, is forged, whatever it says: nobody can have been
told that offset. The decoding refuses it (docs/decisions/048).

The end moves on, but a replay has to decide as the first try did. So the ops of a batch are held
against an offset some pages behind the end, which the checkpoint notes. A batch needs a new note
only if the topic has grown past the last one, if the brokers do not answer, or if it is the first
one of a run. The newest note up to a batch holds for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.listed_offsets import listed_offsets
from checkback.streaming.batch_notes import BatchNotes
from checkback.streaming.read_until import BatchPlans

FOLDER: Final = "half_bounds"
PAGES_AHEAD: Final = 64
"""Pages behind a partition's end that an op may name. More of them mean fewer notes: at 1,000
halves a second in a partition one is good for four minutes."""
TIMEOUT_S: Final = 10.0

LogEnds = Mapping[int, int]
"""By partition of the half topic, the first offset that no op may name. An op may name any offset
of a partition that is missing."""


def half_log_ends(admin: AdminClient, topic: str, partitions: Collection[int]) -> LogEnds:
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


@dataclass(slots=True)
class HalfBounds:
    """Decides which offsets the ops of a batch may name; one object for each run of a query.

    Args:
        store: the checkpoint, which holds the notes.
        look: returns the ends of these partitions of the half topic, nothing if they are unknown.
        is_begun: tells whether anything of a batch is written.
        topics: the names of the topics.
        page_size: half offsets per page.
    """

    store: CheckpointStore
    look: Callable[[Collection[int]], LogEnds]
    is_begun: Callable[[int], bool]
    topics: TopicNames
    page_size: int
    _noted: LogEnds | None = field(default=None)

    def of_batch(self, batch_id: int, plans: BatchPlans) -> LogEnds:
        """Return them for a batch that is planned; nothing for one without ops.

        Args:
            batch_id: Spark's number of it.
            plans: its plan and the one before.

        Raises:
            CheckpointError: a note can't be read.
            PrerequisiteError: it can't be written.
            BrokerError: the markers can't be read.
        """
        if not plans.reads_any_of((self.topics.op, self.topics.direct_op)):
            return {}
        planned_ms, known = plans.batch.timestamp_ms, self._noted
        if known is None and plans.is_first and self.is_begun(batch_id):
            self._noted = self._note_for(batch_id, planned_ms)
        else:
            found = self.look(plans.batch.ends.get(self.topics.half, {}))
            if known is None or not _holds(known, found):
                self._noted = self._note(batch_id, planned_ms, found)
        return self._noted or {}

    def _note(self, batch_id: int, planned_ms: int, found: LogEnds) -> LogEnds:
        ahead = PAGES_AHEAD * self.page_size
        ends = {number: end + ahead for number, end in found.items()}
        return self._notes.write(batch_id, planned_ms, ends)

    def _note_for(self, batch_id: int, planned_ms: int) -> LogEnds:
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
    def _notes(self) -> BatchNotes[LogEnds]:
        return BatchNotes(self.store, FOLDER, "planned_ms", "ends", _parsed)


def _parsed(said: Any) -> LogEnds:
    return {int(partition): int(end) for partition, end in said.items()}


def _holds(known: LogEnds, found: LogEnds) -> bool:
    """Tell whether a note still holds. One of silent brokers lets every op pass."""
    if not found:
        return not known
    return all(number in known and end <= known[number] for number, end in found.items())
