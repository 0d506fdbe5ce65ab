"""The young halves of one partition that a relay holds, in the order of their offsets."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from checkback.protocol.record_size import record_bytes_max
from checkback.relay.reading import Identity
from checkback.sinks.records.source_record import SourceRecord

HELD_S: Final = 10.0
"""How long a half is held. The first check comes after transaction_timeout_ms, six seconds by
default, so the relay can deliver its answer. The job discards no half that a relay holds."""
OVERHEAD_BYTES: Final = 1_200
"""Memory of a half besides its record: the objects of librdkafka and Python."""


class HeldHalf(NamedTuple):
    """A half that is accepted.

    Args:
        read_s: when it was read, by a clock that is never set.
    """

    record: SourceRecord
    identity: Identity
    read_s: float

    @property
    def bytes_held(self) -> int:
        """About how much memory it takes."""
        record = self.record
        size = record_bytes_max(record.key(), record.value(), record.headers() or ())
        return OVERHEAD_BYTES + size


@dataclass(slots=True)
class HalfMemory:
    """Halves of one partition; the oldest leave after HELD_S, or when memory is full."""

    bytes_max: int
    bytes_held: int = 0
    _halves: OrderedDict[int, HeldHalf] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._halves)

    @property
    def lowest(self) -> int | None:
        """The lowest offset that is held."""
        return next(iter(self._halves), None)

    def hold(self, offset: int, half: HeldHalf) -> None:
        """Add a half; its offset is higher than all offsets before."""
        self._halves[offset] = half
        self.bytes_held += half.bytes_held
        while self.bytes_held > self.bytes_max:
            self._drop_oldest()

    def take(self, offset: int) -> HeldHalf | None:
        """Remove a half for good and return it (rule 4); None where it is not held."""
        half = self._halves.pop(offset, None)
        if half is not None:
            self.bytes_held -= half.bytes_held
        return half

    def drop_older(self, than_s: float) -> None:
        """Drop halves that were read before that time."""
        while self._halves and next(iter(self._halves.values())).read_s < than_s:
            self._drop_oldest()

    def clear(self) -> None:
        """Drop everything."""
        self._halves.clear()
        self.bytes_held = 0

    def _drop_oldest(self) -> None:
        _, half = self._halves.popitem(last=False)
        self.bytes_held -= half.bytes_held
