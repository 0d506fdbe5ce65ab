"""The records on the decided topic: what a relay makes of each op, and who takes the ops.

Only the pipeline and relays write there and read there. The last header of a record says what the
record is: its name is KIND_HEADER_PREFIX and the kind. A record about an op carries the op's offset
in that header. The other records have a null key and a JSON object as their value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from checkback.protocol import properties as names
from checkback.protocol.properties import Headers

KIND_HEADER_PREFIX: Final = "__checkback.decided."
ANY_TOPIC: Final = ""


class OpKind(StrEnum):
    """What a relay made of an op. The values end the names of headers.

    Members:
        DELIVERED: the final stands in the same Kafka transaction; the op says 9.
        PASSED: the op as it was, for the job to judge.
        EARLY: the op named a half that was not stored yet; the job refuses it.
        UNREADABLE: the op's headers can't be read by a relay; the job refuses it.
    """

    DELIVERED = "delivered"
    PASSED = "passed"
    EARLY = "early"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Taken:
    """From where on relays take the ops of a partition. Written by a start of the job.

    Args:
        ops_from: the first offset of the op partition that is the relays'.
        halves_from: the end of the half partition, asked for after `ops_from` was known.
        op_topic_id: as in RelayMark.
    """

    ops_from: int
    halves_from: int
    op_topic_id: str = ANY_TOPIC


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of what relays take of a partition. Written by a start of the job.

    Args:
        ops_from: the first offset of the op partition that is the job's again.
        op_topic_id: as in RelayMark.
    """

    ops_from: int
    op_topic_id: str = ANY_TOPIC


@dataclass(frozen=True, slots=True)
class RelayMark:
    """How far a relay has come in a partition. Stands behind what it speaks of.

    Args:
        position: offset in the op partition: each op below it has its record before this one.
        floor: offset in the half partition: no relay will deliver a half below it.
        read_until_ms: milliseconds since 1970 by the brokers' clock: each op that was stored until
            then is below `position`.
        ops_from: of the last Taken.
        halves_from: of the last Taken.
        op_topic_id: Kafka's id of the op topic: after it was made again, its offsets mean other
            ops. ANY_TOPIC in records of earlier versions.
    """

    position: int
    floor: int
    read_until_ms: int
    ops_from: int
    halves_from: int
    op_topic_id: str = ANY_TOPIC


PartitionNote = Taken | Closed | RelayMark
"""A record about a partition, not about an op."""
_KINDS: Final[dict[str, type[PartitionNote]]] = {
    "taken": Taken,
    "closed": Closed,
    "mark": RelayMark,
}
OP_TOPIC_ID: Final = "op_topic_id"
_FIELDS: Final = {kind: [one.name for one in fields(kind)] for kind in _KINDS.values()}
NOTE_HEADERS: Final = {kind: KIND_HEADER_PREFIX + name for name, kind in _KINDS.items()}
OP_KIND_HEADERS: Final = {kind: KIND_HEADER_PREFIX + kind.value for kind in OpKind}
"""The name of the last header, by kind."""


def passed_headers(op: Headers, kind: OpKind, op_offset: int) -> Headers:
    """Return the headers of a record that is an op as it was, but for the header of its kind."""
    return [*op, (OP_KIND_HEADERS[kind], b"%d" % op_offset)]


def delivered_headers(
    producer_group: bytes, transaction_id: bytes, from_check: bytes, op_offset: int
) -> Headers:
    """Return the headers of a record that says that a half's final stands in its transaction."""
    return [
        (names.TAGS, b"d"),
        (names.COMMIT_OR_ROLLBACK, b"9"),
        (names.PGROUP, producer_group),
        (names.UNIQ_KEY, transaction_id),
        (names.FROM_TRANSACTION_CHECK, from_check),
        (OP_KIND_HEADERS[OpKind.DELIVERED], b"%d" % op_offset),
    ]


def note_value(note: PartitionNote) -> bytes:
    """Return the value of a record about a partition."""
    return json.dumps({name: getattr(note, name) for name in _FIELDS[type(note)]}).encode()


def note_headers(note: PartitionNote) -> Headers:
    """Return the headers of a record about a partition."""
    return [(NOTE_HEADERS[type(note)], b"")]


def partition_note(
    headers: Sequence[tuple[str, bytes | None]], value: bytes | None
) -> PartitionNote | None:
    """Return what a record says of its partition; None for a record about an op, or a stranger's.

    Fields that are not known are left out, so that a later version may add some.
    """
    name = headers[-1][0] if headers else ""
    kind = _KINDS.get(name.removeprefix(KIND_HEADER_PREFIX))
    if kind is None or not name.startswith(KIND_HEADER_PREFIX):
        return None
    try:
        document = {OP_TOPIC_ID: ANY_TOPIC, **json.loads(value or b"")}
        found = {name: document[name] for name in _FIELDS[kind]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if any(type(one) is not (str if name == OP_TOPIC_ID else int) for name, one in found.items()):
        return None
    return kind(**found)


def is_about(note: PartitionNote, op_topic_id: str) -> bool:
    """Return whether a note is about this op topic, and not about a former one of that name."""
    return note.op_topic_id in (ANY_TOPIC, op_topic_id)
