"""The records of the discarded topic, and which of them were resumed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import half_position
from checkback.protocol import properties as names
from checkback.protocol.properties import Headers
from checkback.protocol.records import DISCARDED_CHECK_LIMIT, DISCARDED_EXPIRED

REASONS: Final = {"check-limit": DISCARDED_CHECK_LIMIT, "expired": DISCARDED_EXPIRED}
"""The reasons as the command line writes them, and as the records do."""


@dataclass(frozen=True, slots=True)
class DiscardedHalf:
    """A record of the discarded topic.

    Args:
        record: the record itself; its timestamp is the half's.
        resumed_to: partition:offset of the new half, "" if the record was not resumed.
        resumed_at_ms: when the note of it was written.
    """

    record: FoundRecord
    resumed_to: str = ""
    resumed_at_ms: int = 0

    @property
    def original(self) -> Headers:
        """Its headers, which are the half's and the pipeline's."""
        return self.record.headers

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
        """The real topic of the message."""
        return self.record.text(names.REAL_TOPIC)

    @property
    def reason(self) -> str:
        """Why it was discarded."""
        return self.record.text(names.DISCARDED_REASON)

    @property
    def half_at(self) -> Position | None:
        """The position of the half."""
        return half_position(self.record)

    def as_data(self) -> dict[str, Any]:
        """Return the record as plain data, without the body."""
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


def discarded_halves(records: Iterable[FoundRecord]) -> list[DiscardedHalf]:
    """Return the discarded halves, oldest half first, each with the new half if it was resumed."""
    halves, resumed = [], {}
    for record in records:
        to = record.text(names.RESUME.target)
        if to:
            resumed[record.text(names.RESUME.source)] = to, record.time_ms
        else:
            halves.append(record)
    halves.sort(key=lambda record: (record.time_ms, record.at))
    return [DiscardedHalf(record, *resumed.get(str(record.at), ("", 0))) for record in halves]
