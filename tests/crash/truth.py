"""What the application of a crash run did, and what a reader of committed records found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from checkback.state.formats.settled_marks import SettledMarks

Position = tuple[int, int]
"""(half partition, half offset)."""


class Fate(Enum):
    """What becomes of a transaction, and when its op is sent."""

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
    """A half as the broker stored it.

    Args:
        key: its key. The next half of a key was sent after this one's op was stored.
    """

    position: Position
    body: bytes
    topic: str
    fate: Fate
    key: bytes = b""


class Final(NamedTuple):
    """A record on a real topic."""

    topic: str
    partition: int
    offset: int
    body: bytes
    half: Position


class TrueMark(NamedTuple):
    """A settled mark with its state partition."""

    state_partition: int
    marks: SettledMarks


@dataclass
class Evidence:
    """What a read_committed consumer has seen, in the order of each partition.

    Args:
        finals: records on the real topics.
        marks: marks on the settled topic.
        checks: (half, check times) of the check requests.
        discarded: halves on the discarded topic.
        refused: (reason, transaction id) on the refused topic.
    """

    finals: list[Final] = field(default_factory=list)
    marks: list[TrueMark] = field(default_factory=list)
    checks: list[tuple[Position, int]] = field(default_factory=list)
    discarded: list[Position] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
