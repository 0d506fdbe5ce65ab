"""One partition: records and the markers of transactions, one offset each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fakes.kafka.groups import GroupOffsets

Headers = list[tuple[str, bytes]]


class TransactionPhase(IntEnum):
    """How far a transaction is. From PREPARED_* on its end is decided, whatever happens."""

    OPEN = 0
    PREPARED_COMMIT = 1
    PREPARED_ABORT = 2
    COMMITTED = 3
    ABORTED = 4


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction of one producer.

    Args:
        transactional_id: whose.
        started_ms: when its first partition or group was added.
        timeout_ms: after which the coordinator aborts it.
    """

    transactional_id: str
    started_ms: float
    timeout_ms: float
    phase: TransactionPhase = TransactionPhase.OPEN
    markers_due_ms: float = 0.0
    logs: list[PartitionLog] = field(default_factory=list)
    groups: list[GroupOffsets] = field(default_factory=list)

    @property
    def is_committing(self) -> bool:
        """Tell whether it is, or is about to be, committed."""
        return self.phase in (TransactionPhase.PREPARED_COMMIT, TransactionPhase.COMMITTED)


@dataclass(slots=True, eq=False)
class Record:
    """What stands at one offset; a marker has neither key nor value."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    transaction: Transaction | None = None
    is_marker: bool = False


@dataclass(slots=True, eq=False)
class PartitionLog:
    """The log of one partition.

    Args:
        topic: name of its topic.
        number: of the partition.
    """

    topic: str
    number: int
    records: list[Record] = field(default_factory=list)
    leaderless_until_ms: float = 0.0
    epoch: int = 0
    _epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Leader epochs, and the offset at which each began."""
    _open: dict[Transaction, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest transaction without a marker; else the end."""
        for first in self._open.values():
            return first
        return len(self.records)

    def append(self, record: Record) -> int:
        """Add a record and return its offset."""
        offset, transaction = len(self.records), record.transaction
        if transaction is not None and transaction not in self._open:
            self._open[transaction] = offset
            transaction.logs.append(self)
        self.records.append(record)
        return offset

    def write_marker(self, transaction: Transaction, now_ms: float) -> None:
        """End a transaction here: its records are decided on, and readers may pass."""
        del self._open[transaction]
        marker = Record(None, None, [], int(now_ms), transaction, is_marker=True)
        self.records.append(marker)

    def elect(self, end: int | None = None) -> None:
        """Have another leader, which may lack what stands from an offset on."""
        if end is not None:
            del self.records[end:]
            self._epochs = [one for one in self._epochs if one[1] < end or one == (0, 0)]
        self.epoch += 1
        self._epochs.append((self.epoch, self.end))

    def end_of(self, epoch: int) -> int:
        """Return where a leader epoch ended, as brokers answer OffsetsForLeaderEpoch."""
        later = [first for number, first in self._epochs if number > epoch]
        return min(later, default=self.end)

    def is_visible(self, offset: int) -> bool:
        """Tell whether a read_committed consumer that gets there is given what stands there."""
        record = self.records[offset]
        if record.is_marker:
            return False
        return record.transaction is None or record.transaction.is_committing
