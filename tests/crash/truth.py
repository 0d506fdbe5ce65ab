"""What the application of a crash run did, and what a reader of committed records found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from checkback.state.settled import SettledMarks

Position = tuple[int, int]
"""(half partition, half offset)."""


class Fate(Enum):
    """What becomes of a transaction: when its end is said, and which."""

    COMMITTED = "committed at once"
    ROLLED_BACK = "rolled back at once"
    UNKNOWN = "unknown at first, committed when asked"
    FORGOTTEN_COMMIT = "its op was never sent, committed when asked"
    FORGOTTEN_ROLLBACK = "its op was never sent, rolled back when asked"
    SILENT = "never ended"

    @property
    def is_committed(self) -> bool:
        return self in (Fate.COMMITTED, Fate.UNKNOWN, Fate.FORGOTTEN_COMMIT)


class Transaction(NamedTuple):
    """A half as the broker stored it."""

    position: Position
    body: bytes
    topic: str
    fate: Fate


class Final(NamedTuple):
    """A record on a real topic."""

    topic: str
    partition: int
    offset: int
    body: bytes
    half: Position


class Mark(NamedTuple):
    """A settled mark, and in which state partition it stands."""

    state_partition: int
    marks: SettledMarks


@dataclass
class Evidence:
    """What a read_committed consumer has seen, in the order of each partition.

    Args:
        finals: on the real topics.
        marks: on the settled topic.
        checks: (half, check times) of the check requests.
        discarded: halves on the discarded topic.
        refused: (reason, transaction id) on the refused topic.
    """

    finals: list[Final] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    checks: list[tuple[Position, int]] = field(default_factory=list)
    discarded: list[Position] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
