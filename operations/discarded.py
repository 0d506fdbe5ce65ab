"""What was given up: the records of the discarded topic, and which of them were resumed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from checkback.operations.history import half_position
from checkback.operations.positions import Position
from checkback.operations.scanning import FoundRecord
from checkback.protocol import properties as names
from checkback.protocol.records import (
    DISCARDED_CHECK_LIMIT,
    DISCARDED_EXPIRED,
    DISCARDED_REASON_HEADER,
)

REASONS: Final = {"check-limit": DISCARDED_CHECK_LIMIT, "expired": DISCARDED_EXPIRED}
"""As a command line writes them, and as the records do."""


@dataclass(frozen=True, slots=True)
class DiscardedHalf:
    """A record of the discarded topic.

    Args:
        record: itself; its timestamp is the half's.
        resumed_to: partition:offset of the half that it was resumed to, "" where it was not.
    """

    record: FoundRecord
    resumed_to: str = ""

    @property
    def transaction_id(self) -> str:
        """UNIQ_KEY."""
        return self.record.text(names.UNIQ_KEY)

    @property
    def group(self) -> str:
        """The producer group that did not answer."""
        return self.record.text(names.PGROUP)

    @property
    def real_topic(self) -> str:
        """Where the message was to go."""
        return self.record.text(names.REAL_TOPIC)

    @property
    def reason(self) -> str:
        """Why it was given up."""
        return self.record.text(DISCARDED_REASON_HEADER)

    @property
    def half_at(self) -> Position | None:
        """Where the half was."""
        return half_position(self.record)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, without the body."""
        half_at = self.half_at
        return {
            "partition": self.record.at.partition,
            "offset": self.record.at.offset,
            "transaction_id": self.transaction_id,
            "group": self.group,
            "real_topic": self.real_topic,
            "reason": self.reason,
            "check_times": self.record.text(names.TRANSACTION_CHECK_TIMES),
            "half_partition": None if half_at is None else half_at.partition,
            "half_offset": None if half_at is None else half_at.offset,
            "half_time_ms": self.record.time_ms,
            "body_bytes": len(self.record.value or b""),
            "resumed_to": self.resumed_to,
        }


@dataclass(frozen=True, slots=True)
class DiscardedFilter:
    """Which discarded records are meant; what is empty leaves it open.

    Args:
        name: partition:offset of the discarded record, or the transaction id.
        group: producer group.
        topic: real topic.
        reason: as the record says it.
        stored_until_ms: the half was stored then or before.
    """

    name: str = ""
    group: str = ""
    topic: str = ""
    reason: str = ""
    stored_until_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it takes everything."""
        return self == DiscardedFilter()

    def takes(self, half: DiscardedHalf) -> bool:
        """Tell whether the record is meant."""
        if self.name and self.name not in (str(half.record.at), half.transaction_id):
            return False
        until_ms = self.stored_until_ms
        return (
            self.group in ("", half.group)
            and self.topic in ("", half.real_topic)
            and self.reason in ("", half.reason)
            and (until_ms is None or half.record.time_ms <= until_ms)
        )


def discarded_halves(records: Iterable[FoundRecord]) -> list[DiscardedHalf]:
    """Return the discarded halves, oldest half first, each with where it was resumed to.

    Args:
        records: all of the discarded topic: halves, and the notes that some were resumed.
    """
    halves, resumed = [], {}
    for record in records:
        if record.text(names.RESUME_TO):
            resumed[record.text(names.RESUME_FROM)] = record.text(names.RESUME_TO)
        else:
            halves.append(record)
    halves.sort(key=lambda record: (record.time_ms, record.at))
    return [DiscardedHalf(record, resumed.get(str(record.at), "")) for record in halves]
