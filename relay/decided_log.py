"""Who takes the ops of a partition (rule 9), by the records at the end of the decided topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from checkback.protocol.decided import (
    ANY_TOPIC,
    Closed,
    PartitionNote,
    RelayMark,
    Taken,
    is_about,
    partition_note,
)
from checkback.sinks.records.source_record import PlacedRecord, readable_headers

GROUP_OPS_MAX: Final = 3_000
"""Ops of one transaction of a relay."""
LOOK_BACK_OFFSETS: Final = 2 * GROUP_OPS_MAX
"""How far before the end reading begins: further than one transaction. Each transaction of a relay
has a mark, and marks repeat the newest `taken`."""


@dataclass(slots=True)
class DecidedPartition:
    """What was read of one partition.

    Args:
        begin: the offset where reading began.
        end: the end of the partition when it was asked for.
        op_topic_id: Kafka's id of the op topic; notes about a former one do not count.
        ops_end: the offset behind the last op that was read; ops in front of `begin` were not.
    """

    begin: int
    end: int
    position: int
    ops_end: int
    op_topic_id: str = ANY_TOPIC
    taken: Taken | None = None
    position_of_marks: int = 0
    is_closed: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it was read up to its end."""
        return self.position >= self.end

    def take(self, offset: int, record: PlacedRecord | None) -> None:
        """Take the next record; None: all records below the offset were read."""
        if record is None:
            self.position = max(self.position, offset)
            return
        # Notes have no key; reading headers costs more.
        headers = readable_headers(record) if record.key() is None else []
        note = partition_note(headers, record.value()) if headers else None
        if note is None:
            self.ops_end = offset + 1
        elif is_about(note, self.op_topic_id):
            self._learn(note)
        self.position = offset + 1

    def _learn(self, note: PartitionNote) -> None:
        if isinstance(note, Closed):
            self.taken, self.is_closed = None, True
            return
        self.taken, self.is_closed = Taken(note.ops_from, note.halves_from, self.op_topic_id), False
        if isinstance(note, RelayMark):
            self.position_of_marks = note.position


def reading_before(
    end: int, op_topic_id: str, offsets: int = LOOK_BACK_OFFSETS
) -> DecidedPartition:
    """Return a partition that is to be read from a number of offsets before its end on."""
    begin = max(0, end - offsets)
    return DecidedPartition(begin, end, begin, begin, op_topic_id)
