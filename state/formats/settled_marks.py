"""Settled marks: the record of a page's verdicts and checks on the settled topic.

A rebuild of a lost checkpoint reads from them which halves are done, and how often the pipeline has
asked about the others.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.errors import CheckpointError
from checkback.state.formats.outcome import REST_UNKNOWN, Action, Outcome
from checkback.state.page.packing import Reader, pack_columns, refuse_version

SETTLED_VERSION: Final = 2
"""Version 1 did not say of which half a mark is: an offset may have been given to another one."""
NO_IDENTITY: Final = 0
CLAIM_KEY: Final = b"claim"
"""Key of the record by which a checkpoint claims its topics: a settled mark without any half."""
_HEADER: Final = struct.Struct("<BxxxiqqqqI")


class Mark(IntEnum):
    """What a settled mark says of a half offset; the numbers stand on the settled topic."""

    COMMIT = Action.COMMIT
    ROLLBACK = Action.ROLLBACK
    ASKED = Action.CHECK
    DISCARD_CHECK_LIMIT = Action.DISCARD_CHECK_LIMIT
    DISCARD_EXPIRED = Action.DISCARD_EXPIRED
    REFUSED_HALF = Action.REFUSE_HALF
    DELIVERED = Action.DELIVERED
    """Committed; the final message was written before the pipeline settled the half."""


_KNOWN: Final = np.array([*Mark], np.uint8)
_MARK_KEY: Final = re.compile(rb"\d+:\d+")
_COUNTS_CHECKS: Final = (Mark.ASKED, Mark.DISCARD_CHECK_LIMIT, Mark.DISCARD_EXPIRED)


@dataclass(frozen=True, slots=True)
class SettledMarks:
    """The marks of one page in one batch.

    Args:
        batch_id: of the query that wrote it.
        now_ms: the batch's time, milliseconds since 1970.
        offset: int64[m], half offsets.
        mark: uint8[m], Mark.
        check_times: uint16[m], check requests so far; 0 for commits, rollbacks and refusals.
        identity_rest: uint32[m], the second word of the half's identity
            (state/formats/identity.py); NO_IDENTITY where that is not known.
    """

    batch_id: int
    partition: int
    page: int
    now_ms: int
    offset: NDArray[np.int64]
    mark: NDArray[np.uint8]
    check_times: NDArray[np.uint16]
    identity_rest: NDArray[np.uint32]


def mark_key(partition: int, page: int) -> bytes:
    """Return the key of a record with marks of a page."""
    return b"%d:%d" % (partition, page)


def pack_settled(outcome: Outcome, batch_id: int) -> bytes:
    """Return the marks of an outcome, version 2, little endian, 11 bytes per half."""
    rows = np.flatnonzero(np.isin(outcome.action, _KNOWN))
    mark, offset = outcome.action[rows], outcome.offset[rows]
    first = int(offset.min()) if len(offset) else 0
    counts = np.where(np.isin(mark, _COUNTS_CHECKS), outcome.detail[rows], 0)
    header = _HEADER.pack(
        SETTLED_VERSION, outcome.partition, outcome.page, outcome.now_ms, batch_id, first, len(rows)
    )
    rest = np.full(len(rows), REST_UNKNOWN)
    if outcome.identity_rest is not None:
        rest = outcome.identity_rest[rows]
    rest = np.where(rest == REST_UNKNOWN, NO_IDENTITY, rest)
    columns = (offset - first, "<u4"), (rest, "<u4"), (counts, "<u2"), (mark, "u1")
    return pack_columns(header, *columns)


def unpack_settled(blob: bytes) -> SettledMarks:
    """Return the marks that `pack_settled` packed.

    Raises:
        CheckpointError: another version packed them, or they are damaged.
    """
    refuse_version(blob, SETTLED_VERSION, "settled mark")
    reader = Reader(blob, "settled mark")
    version, partition, page, now_ms, batch_id, first, count = reader.header(_HEADER)
    offset = reader.column("<u4", count).astype(np.int64) + first
    identity_rest = np.full(count, NO_IDENTITY, np.uint32)
    if version > 1:
        identity_rest = reader.column("<u4", count)
    check_times = reader.column("<u2", count)
    mark = reader.column("u1", count)
    reader.finish()
    return SettledMarks(batch_id, partition, page, now_ms, offset, mark, check_times, identity_rest)


def marks_of(key: bytes | None, value: bytes | None) -> SettledMarks | None:
    """Return the marks in a record of the settled topic; None for a record that no job wrote.

    Jobs write whole marks under their page's key, and Kafka keeps them so. A record
    that another writer left there must not stop a rebuild.

    Raises:
        CheckpointError: a newer version may have written it, so what it says is needed.
    """
    if key != CLAIM_KEY and not _MARK_KEY.fullmatch(key or b""):
        return None
    if value and value[0] > SETTLED_VERSION:
        refuse_version(value, SETTLED_VERSION, "settled mark")
    try:
        marks = unpack_settled(value or b"")
    except CheckpointError:
        return None
    is_claim = key == CLAIM_KEY and not len(marks.offset)
    if not is_claim and key != mark_key(marks.partition, marks.page):
        return None
    if not np.isin(marks.mark, _KNOWN).all():
        raise CheckpointError(
            "The settled topic has a mark of a kind that this Checkback does not know.",
            remedy="Run the version that wrote it, or a newer one.",
        )
    return marks
