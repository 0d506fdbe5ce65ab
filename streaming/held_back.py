"""Finds partitions in which an open Kafka transaction hides records that a batch should have read.

The pipeline reads what is committed. So a transaction that any producer leaves open on the half or
op topic hides everything that follows, perhaps a commit of another producer. A batch that ends
there has not read what the plans say (docs/decisions/query.md#silence).

The pipeline decides this for each partition number: halves, ops and feedback of other numbers count
as read.

The brokers' answer changes with time, but a replay has to decide as the first try did. So the
pipeline writes a note to the checkpoint for each batch that missed something, and for the first
batch of every run. Other batches need no note. When a batch runs again, its markers tell whether
the first try wrote anything; if it did and left no note, nothing was hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.checkpoints.logs import Offsets
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.listed_offsets import Place, by_place, listed_offsets
from checkback.streaming.batch_notes import BatchNotes

FOLDER: Final = "held_back"
TIMEOUT_S: Final = 10.0
NO_OFFSET: Final = -1
"""The brokers' answer where no record is that young."""

Numbers = frozenset[int]
"""Of partitions. An op, and a feedback, is in the partition of its half's number."""


@dataclass(slots=True)
class UnreadRecords:
    """Looks at the brokers for records that were there, and that a batch did not read.

    Args:
        connection: librdkafka's settings for the connection.
    """

    connection: Mapping[str, Any]
    _admin: AdminClient | None = None

    def partitions_with_older(self, ends: Offsets, than_ms: int) -> Numbers:
        """Return the partitions with an unread record that its broker stored before a time.

        All partitions where the brokers do not answer: then a batch may conclude nothing from
        silence.

        Args:
            ends: by topic and partition, the first offset that was not read.
            than_ms: milliseconds since 1970.
        """
        read = by_place(ends)
        try:
            stored = self._offsets(read, OffsetSpec.latest())
            unread = {place: end for place, end in read.items() if end < stored[place]}
            young = self._offsets(unread, OffsetSpec.for_timestamp(than_ms)) if unread else {}
        except BrokerError:
            return frozenset(number for _, number in read)
        return frozenset(
            place[1] for place, at in young.items() if at == NO_OFFSET or at > unread[place]
        )

    def _offsets(self, places: dict[Place, int], which: OffsetSpec) -> dict[Place, int]:
        if self._admin is None:
            self._admin = AdminClient({**self.connection})
        every = IsolationLevel.READ_UNCOMMITTED
        return listed_offsets(self._admin, places, which, every, TIMEOUT_S, retry_s=TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Decides what a batch missed; a replay gets the answer of the first try.

    Args:
        store: the checkpoint, which holds the notes.
        look: returns the partitions with unread records that are older than a time.
        is_begun: tells whether anything of a batch is written.
    """

    store: CheckpointStore
    look: Callable[[Offsets, int], Numbers]
    is_begun: Callable[[int], bool]

    def partitions(self, batch_id: int, ends: Offsets, than_ms: int, *, is_first: bool) -> Numbers:
        """Return the partitions in which a batch missed records that were stored before a time.

        Args:
            batch_id: Spark's number of it.
            ends: where it ended, by topic and partition.
            than_ms: the time up to which its plan says that all is read.
            is_first: whether it is the first batch of this run: only that one may have been tried
                before, or be tried by an older job that does not know yet that it is fenced.

        Raises:
            CheckpointError: a note can't be read.
            PrerequisiteError: it can't be written.
            BrokerError: the markers can't be read.
        """
        if is_first and self.is_begun(batch_id):
            return self._notes.of_plan(batch_id, than_ms) or frozenset()
        found = self.look(ends, than_ms)
        if not found and not is_first:
            return found
        return self._notes.write(batch_id, than_ms, sorted(found))

    @property
    def _notes(self) -> BatchNotes[Numbers]:
        return BatchNotes(self.store, FOLDER, "read_until_ms", "partitions", _parsed)


def _parsed(said: Any) -> Numbers:
    return frozenset(int(number) for number in said)
