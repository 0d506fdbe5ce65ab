"""A half message that may be delivered directly, and how far its delivery is."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from checkback.protocol.properties import Headers


class HalfState(Enum):
    """What the owner of a direct half has done with it."""

    RUNNING = "its local transaction has not ended, as far as this process knows"
    QUEUED = "committed; waits for a Kafka transaction"
    IN_TRANSACTION = "handed to Kafka in a transaction whose end is not known"
    DELIVERED = "consumers see it"
    CLOSED = "never to be delivered directly from now on"


class DirectRecord(NamedTuple):
    """A record as a session gives it to Kafka."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: Headers
    timestamp_ms: int


class DirectHalf:
    """One half, from before it is stored until its end.

    Args:
        transaction_id: its first one; a half that is tried on another partition gets a new one.
        session_id: of the one session that may deliver it.
        lane: the number of that session's lane.
    """

    __slots__ = (
        "__weakref__", "lane", "offset", "partition", "records", "report", "session_id", "state",
        "transaction_id",
    )  # fmt: skip

    def __init__(self, transaction_id: str, session_id: str, lane: int) -> None:
        self.transaction_id = transaction_id
        self.session_id = session_id
        self.lane = lane
        self.state = HalfState.RUNNING
        self.partition = -1
        self.offset = -1
        self.records: tuple[DirectRecord, ...] = ()
        """The final message and the op, once it is queued."""
        self.report: Any = None
        """Woken when the delivery is over; None where nobody waits."""

    def size(self) -> int:
        """Return about how many bytes its records have, headers left out."""
        return sum(len(record.value) + len(record.key or b"") for record in self.records)
