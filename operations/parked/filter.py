"""Chooses among parked records: discarded halves, refused records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkback.operations.parked.discarded import DiscardedHalf
from checkback.operations.parked.refused import RefusedRecord
from checkback.operations.topics.position import Position
from checkback.protocol.errors import NotFoundError

ParkedRecord = DiscardedHalf | RefusedRecord


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Chooses records; an empty field chooses all.

    Args:
        name: partition:offset of the record, or the transaction id. What can be a position is
            one: a transaction id may be any text, also that of another record's position.
    """

    name: str = ""
    group: str = ""
    topic: str = ""
    reason: str = ""
    until_ms: int | None = None
    from_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the filter chooses every record."""
        return self == RecordFilter()

    def require_found(self, topic: str, noun: str, found: Sequence[ParkedRecord]) -> None:
        """Refuse a name that no record has.

        Raises:
            NotFoundError: the filter names a record, and none was found.
        """
        if self.name and not found:
            raise NotFoundError(
                f"{topic} has no record {self.name}.",
                remedy=f"Run `checkback {noun} list` to see the records.",
                name=self.name,
            )

    def takes(self, parked: ParkedRecord) -> bool:
        """Return whether the filter chooses the record."""
        at = Position.parse(self.name)
        if at is not None and parked.record.at != at:
            return False
        if at is None and self.name not in ("", parked.transaction_id):
            return False
        time_ms = parked.record.time_ms
        return (
            self.group in ("", parked.group)
            and self.topic in ("", parked.real_topic)
            and self.reason in ("", parked.reason)
            and (self.until_ms is None or time_ms <= self.until_ms)
            and (self.from_ms is None or time_ms >= self.from_ms)
        )
