"""The committed offsets of one consumer group, and those pending in transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from confluent_kafka import TopicPartition
from tests.fakes.kafka.log import Transaction

Place = tuple[str, int]
"""Topic and partition."""


class Committed(NamedTuple):
    """A committed offset; the sequence says which of two was appended later."""

    offset: int
    metadata: str
    sequence: int
    at_ms: float


@dataclass(slots=True, eq=False)
class GroupOffsets:
    """Offsets of one group without members, as the sink's marker group is one.

    Args:
        moved: told of each offset that took hold: (place, offset and metadata).
    """

    moved: Callable[[Place, Committed], None] = lambda _place, _committed: None
    committed: dict[Place, Committed] = field(default_factory=dict)
    _pending: dict[Transaction, dict[Place, Committed]] = field(default_factory=dict)
    _sequence: count[int] = field(default_factory=count)

    def commit(self, positions: Iterable[TopicPartition], now_ms: float) -> None:
        """Set offsets at once, as a plain commit or an operator's reset does."""
        for one in positions:
            self._take((one.topic, one.partition), self._entry(one, now_ms))

    def add(
        self, transaction: Transaction, positions: Iterable[TopicPartition], now_ms: float
    ) -> None:
        """Set offsets once the transaction is committed."""
        if transaction not in self._pending:
            self._pending[transaction] = {}
            transaction.groups.append(self)
        for one in positions:
            self._pending[transaction][one.topic, one.partition] = self._entry(one, now_ms)

    def end(self, transaction: Transaction) -> None:
        """Take the marker of a transaction in."""
        waiting = self._pending.pop(transaction, {})
        if not transaction.is_committing:
            return
        for place, entry in waiting.items():
            found = self.committed.get(place)
            if found is None or found.sequence < entry.sequence:
                self._take(place, entry)

    def is_pending(self, places: Iterable[Place]) -> bool:
        """Tell whether a transaction that has not ended sets one of these."""
        wanted = set(places)
        return any(not wanted.isdisjoint(waiting) for waiting in self._pending.values())

    def delete(self) -> None:
        """Delete the group with its committed and its pending offsets."""
        self.committed.clear()
        for waiting in self._pending.values():
            waiting.clear()

    def expire(self, before_ms: float) -> None:
        """Forget offsets committed before a time, but none that a transaction is about to set."""
        for place, entry in list(self.committed.items()):
            if entry.at_ms < before_ms and not self.is_pending([place]):
                del self.committed[place]

    def _entry(self, one: TopicPartition, now_ms: float) -> Committed:
        return Committed(one.offset, one.metadata or "", next(self._sequence), now_ms)

    def _take(self, place: Place, entry: Committed) -> None:
        self.committed[place] = entry
        self.moved(place, entry)
