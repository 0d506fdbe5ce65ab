"""What a page decided in one batch, and its packed form."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.state.page.packing import Reader, pack_columns, refuse_version

OUTCOME_VERSION: Final = 1
NO_WAKE: Final = -1
REST_UNKNOWN: Final = -1
"""In place of an identity's second word, which is never negative: the half is not known."""
FINISH_BOUNDS_MS: Final = (
    500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000, 3_600_000, 43_200_000, 86_400_000,
)  # fmt: skip
"""Upper bounds of the ages by which commits and rollbacks are counted."""
FINISH_NUMBERS: Final = len(FINISH_BOUNDS_MS) + 2
"""A count for each bound, one for those above all, and the sum of the ages."""


class Action(IntEnum):
    """The sink's action for a half or an op; the first seven leave a mark of that number."""

    COMMIT = 1
    ROLLBACK = 2
    CHECK = 3
    DISCARD_CHECK_LIMIT = 4
    DISCARD_EXPIRED = 5
    REFUSE_HALF = 6
    DELIVERED = 7
    """The final message is written already: only the mark is missing."""
    REFUSE_OP = 8
    PREPARED = 9
    """A half became pending: nothing to do; only a ledger needs to know."""


class Counter(IntEnum):
    """Counters of a page. Pending grows by HALVES - COMMITS - ROLLBACKS - DISCARDS."""

    HALVES = 0
    """Halves that became pending."""
    REPEATED_HALVES = 1
    """Halves at an offset that was pending or remembered already."""
    COMMITS = 2
    ROLLBACKS = 3
    UNKNOWN_OPS = 4
    REPEATED_OPS = 5
    """Ops that say again what the verdict is."""
    OPS_WAITING = 6
    """Ops that came before their half and began to wait."""
    OPS_EXPIRED = 7
    """Ops without a half in time; they are refused, so REFUSALS counts them, too."""
    REFUSALS = 8
    """Halves and ops refused, for any reason."""
    CHECKS = 9
    CHECKS_DEFERRED = 10
    """Halves that were due but over the budget; due again in the next batch."""
    CHECKS_UNDELIVERED = 11
    """Check requests that found no topic and so do not count."""
    DISCARDS = 12
    DELIVERED = 13
    """Commits whose final message a relay had written (before there were relays, the producer)."""
    DELIVERED_REFUSED = 14
    """Delivered ops that met another verdict: 0 while everybody keeps to the protocol."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one page decided in one batch.

    Rows come in this order: refused halves, prepared ones, verdicts, refused ops, discards,
    checks; each by offset, refused ops by their own.

    Args:
        now_ms: the batch's time, milliseconds since 1970.
        action: uint8[m], Action.
        offset: int64[m], offset of the half.
        detail: int32[m]. CHECK: check times with this one. DISCARD_*: check times. REFUSE_*:
            RefusedReason. Else 0.
        source_offset: int64[m], REFUSE_OP: offset of the op, as Events has it. Else that of the
            half.
        counters: int64[len(Counter)].
        pending: halves that are pending after the batch.
        oldest_ms: broker's time of the oldest pending half, -1 without any.
        identity: int64[m], first word of the identity of the half that was decided on, so that
            a look-up by offset notices another record there; None for none.
        identity_rest: int64[m], the second word; REST_UNKNOWN in rows about no half of the page.
        wake_at_ms: the page has something to do in the first batch after this time; None if never.
        finished: int64[FINISH_NUMBERS], how many halves were committed or rolled back at an age of
            up to each of FINISH_BOUNDS_MS, how many later, and the sum of all ages in
            milliseconds; None for none.
        state_bytes: size of the page's row in the state after the batch, 0 where it has none.
    """

    partition: int
    page: int
    now_ms: int
    action: NDArray[np.uint8]
    offset: NDArray[np.int64]
    detail: NDArray[np.int32]
    source_offset: NDArray[np.int64]
    counters: NDArray[np.int64]
    pending: int
    oldest_ms: int
    identity: NDArray[np.int64] | None = None
    identity_rest: NDArray[np.int64] | None = None
    wake_at_ms: int | None = None
    finished: NDArray[np.int64] | None = None
    state_bytes: int = 0

    _HEADER = struct.Struct("<BBxxiqqqIIIq")

    def pack(self) -> bytes:
        """Return the packed form, version 1, little endian."""
        header = self._HEADER.pack(
            OUTCOME_VERSION, len(self.counters), self.partition, self.page, self.now_ms,
            self.oldest_ms, self.pending, len(self.action), self.state_bytes,
            NO_WAKE if self.wake_at_ms is None else self.wake_at_ms,
        )  # fmt: skip
        unknown = np.full(len(self.action), REST_UNKNOWN, np.int64)
        none = np.zeros(FINISH_NUMBERS, np.int64)
        return pack_columns(
            header,
            (unknown if self.identity is None else self.identity, "<i8"),
            (unknown if self.identity_rest is None else self.identity_rest, "<i8"),
            (self.counters, "<i8"),
            (none if self.finished is None else self.finished, "<i8"),
            (self.offset, "<i8"),
            (self.source_offset, "<i8"),
            (self.detail, "<i4"),
            (self.action, "u1"),
        )

    @classmethod
    def unpack(cls, blob: bytes) -> Outcome:
        """Return what `pack` packed.

        Raises:
            CheckpointError: another version packed it, or it is cut off.
        """
        refuse_version(blob, OUTCOME_VERSION, "outcome")
        reader = Reader(blob, "outcome")
        header = reader.header(cls._HEADER)
        _, counter_count, partition, page, now_ms, oldest_ms, pending, *rest = header
        rows, state_bytes, wake_at_ms = rest
        identity = reader.column("<i8", rows)
        identity_rest = reader.column("<i8", rows)
        counters = reader.column("<i8", counter_count)
        finished = reader.column("<i8", FINISH_NUMBERS)
        offset = reader.column("<i8", rows)
        source_offset = reader.column("<i8", rows)
        detail = reader.column("<i4", rows)
        action = reader.column("u1", rows)
        reader.finish()
        return cls(
            partition, page, now_ms, action, offset, detail, source_offset, counters, pending,
            oldest_ms, identity, identity_rest, None if wake_at_ms == NO_WAKE else wake_at_ms,
            finished, state_bytes,
        )  # fmt: skip
