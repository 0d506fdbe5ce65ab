"""A record that is written, and what may become of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from checkback.protocol.refusals import RefusedReason

Header = tuple[bytes, bytes | None]
"""A header as it goes to the broker: its name need not be text."""


class Fate(StrEnum):
    """What is seen of a record in the end."""

    FINAL = "final"
    REFUSED = "refused"
    DISCARDED = "discarded"
    NOWHERE = "nowhere"
    """Rolled back, ignored, or still waiting."""


class Place(StrEnum):
    """Which of the topics a record is written to."""

    HALF = "half"
    OP = "op"
    FEEDBACK = "feedback"
    SETTLED = "settled"
    STATUS = "status"
    CHECK = "check"


class Moment(IntEnum):
    """When an op is written."""

    BEFORE_HALF = 0
    AFTER = 1
    COMMITTED = 2
    """In a Kafka transaction that commits."""
    TAKEN_BACK = 3
    """In a Kafka transaction that is aborted: nobody may believe it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What may become of a record: any of the fates, once; if refused, for one of the reasons."""

    fates: frozenset[Fate]
    reasons: frozenset[str] = frozenset()

    @property
    def must_show(self) -> bool:
        """Whether the record has to appear somewhere."""
        return Fate.NOWHERE not in self.fates

    def allows(self, fate: Fate, reason: str) -> bool:
        known = fate is not Fate.REFUSED or not self.reasons or reason in self.reasons
        return fate in self.fates and known


def refused(*reasons: RefusedReason) -> Expected:
    """Return that the record is refused for one of the reasons; for any where none is named."""
    return Expected(frozenset({Fate.REFUSED}), frozenset(one.name for one in reasons))


FINAL: Final = Expected(frozenset({Fate.FINAL}))
DELIVERED_OR_REFUSED: Final = Expected(frozenset({Fate.FINAL, Fate.REFUSED}))
NOWHERE: Final = Expected(frozenset({Fate.NOWHERE}))
VANISHED_OR_REFUSED: Final = Expected(
    frozenset({Fate.NOWHERE, Fate.REFUSED}),
    frozenset({RefusedReason.REAL_TOPIC_MISSING.name, RefusedReason.REAL_TOPIC_UNAVAILABLE.name}),
)
"""Its final may have gone with its topic."""
UNSETTLED: Final = Expected(
    frozenset({Fate.NOWHERE, Fate.DISCARDED, Fate.REFUSED}),
    frozenset({RefusedReason.DISCARD_REJECTED.name, RefusedReason.HALF_UNREADABLE.name}),
)
OP_AT_MOST_REFUSED: Final = Expected(frozenset({Fate.NOWHERE, Fate.REFUSED}))


@dataclass(slots=True)
class Record:
    """One record to write.

    Args:
        kind: which of the generator's kinds it is.
        expected: what may become of it.
        timestamp_ms: what its sender says; 0 leaves it to the client.
    """

    kind: str
    place: Place
    partition: int
    headers: list[Header]
    expected: Expected
    value: bytes | None = b""
    key: bytes | None = None
    compression: str = "none"
    timestamp_ms: int = 0

    @property
    def is_raw(self) -> bool:
        """Whether a name is such that clients in C do not write it."""
        return any(not _is_plain(name) for name, _ in self.headers)


def _is_plain(name: bytes) -> bool:
    if name.isascii():
        return b"\0" not in name
    try:
        return "\0" not in name.decode()
    except UnicodeDecodeError:
        return False


@dataclass(frozen=True, slots=True)
class Said:
    """What an op says of the half that it is planned with.

    Args:
        state: the bytes that say commit, rollback or unknown.
        expected: what may become of the op.
        moment: when it is written.
        group: the op's group, None for that of the half.
        transaction_id: the op's id, None for that of the half.
    """

    state: bytes
    expected: Expected
    moment: Moment = Moment.AFTER
    group: bytes | None = None
    transaction_id: bytes | None = None


@dataclass(slots=True)
class Transaction:
    """A half, the ops that will name its offset, and whether it belongs to the healthy traffic."""

    half: Record
    group: bytes
    transaction_id: bytes
    said: list[Said] = field(default_factory=list)
    is_healthy: bool = False

    def op(self, said: Said, offset: int) -> Record:
        """Return the op that says so of the half at that offset."""
        group = self.group if said.group is None else said.group
        own_id = self.transaction_id if said.transaction_id is None else said.transaction_id
        headers = op_headers(said.state, group, own_id)
        kind, value = f"op of {self.half.kind}", b"%d" % offset
        to, key = self.half.partition, own_id[:100]
        return Record(kind, Place.OP, to, headers, said.expected, value, key)


def op_headers(state: bytes, group: bytes, transaction_id: bytes) -> list[Header]:
    """Return the headers of a healthy op."""
    return [
        (b"TAGS", b"d"),
        (b"COMMIT_OR_ROLLBACK", state),
        (b"PGROUP", group),
        (b"UNIQ_KEY", transaction_id),
        (b"FROM_TRANSACTION_CHECK", b"false"),
    ]
