"""What a page decided in one batch, and its packed form."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.state.packing import Reader, pack_columns, refuse_version

OUTCOME_VERSION: Final = 1


class Action(IntEnum):
    """What the sink has to do for one half or op."""

    COMMIT = 1
    ROLLBACK = 2
    CHECK = 3
    DISCARD_CHECK_LIMIT = 4
    DISCARD_EXPIRED = 5
    REFUSE_HALF = 6
    REFUSE_OP = 7
    PREPARED = 8
    """A half became pending: nothing to do, said only to whoever keeps a ledger."""


class Counter(IntEnum):
    """What is counted. Pending grows by HALVES - COMMITS - ROLLBACKS - DISCARDS."""

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
    """Ops that waited in vain; refused, so also counted there."""
    REFUSALS = 8
    """Halves and ops refused, for whatever reason."""
    CHECKS = 9
    CHECKS_DEFERRED = 10
    """Halves that were due but over the budget; due again in the next batch."""
    CHECKS_UNDELIVERED = 11
    """Check requests that found no topic and so do not count."""
    DISCARDS = 12


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one page decided in one batch.

    Rows come in this order: refused halves, prepared ones, verdicts, refused ops, discards, checks;
    each by offset, refused ops by their own.

    Args:
        partition: half partition.
        page: number of the page.
        now_ms: the batch's time, milliseconds since 1970.
        action: uint8[m], Action.
        offset: int64[m], offset of the half.
        detail: int32[m]. CHECK: check times with this one. DISCARD_*: check times. REFUSE_*:
            RefusedReason. Else 0.
        source_offset: int64[m], REFUSE_OP: offset of the op. Else that of the half.
        counters: int64[len(Counter)].
        pending: halves that are pending after the batch.
        oldest_ms: broker's time of the oldest pending half, -1 without any.
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

    _HEADER = struct.Struct("<BBxxiqqqII")

    def pack(self) -> bytes:
        """Return the packed form, version 1, little endian."""
        header = self._HEADER.pack(
            OUTCOME_VERSION, len(self.counters), self.partition, self.page, self.now_ms,
            self.oldest_ms, self.pending, len(self.action),
        )  # fmt: skip
        return pack_columns(
            header,
            (self.counters, "<i8"),
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
        _, counter_count, partition, page, now_ms, oldest_ms, pending, rows = reader.header(
            cls._HEADER
        )
        counters = reader.column("<i8", counter_count)
        offset = reader.column("<i8", rows)
        source_offset = reader.column("<i8", rows)
        detail = reader.column("<i4", rows)
        action = reader.column("u1", rows)
        reader.finish()
        return cls(
            partition, page, now_ms, action, offset, detail, source_offset, counters, pending,
            oldest_ms,
        )  # fmt: skip
