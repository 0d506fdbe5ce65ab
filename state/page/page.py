"""A page: what the pipeline remembers of a range of half offsets, as columns of numbers.

Pages are values. The engine never writes into a page's arrays; it makes a new page, so a batch that
is replayed finds what the first try found.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.errors import UsageError
from checkback.state.page.columns import Columns
from checkback.state.page.packing import Reader, damaged, pack_narrow_columns, refuse_version

PAGE_VERSION: Final = 2
"""Version 1 also said which halves their producers may deliver themselves. It is read without that:
all halves are plain."""
_STATE_BITS: Final = 15
"""In version 1, the bits of a waiting op that hold what it says."""
_SOURCE_OF_DIRECT: Final = 2**62
"""In version 1, added to the offset of an op that stood on the direct op topic."""
_NO_COPY: Final = -1
"""The source offset of an op from the direct op topic: below 0, so it has no refused copy."""
PAGE_SIZE_MAX: Final = 65_536
"""An index inside a page is packed in 16 bits."""

_HEADER: Final = struct.Struct("<BxxxiqIIIIIII")
_PLACES: Final = np.array([0, 2, 4, 6], np.uint8)
"""Where in a byte its four verdicts stand."""


@dataclass(frozen=True, slots=True)
class PendingHalves(Columns):
    """Halves without a verdict, ascending by index.

    Args:
        index: int64[k], offset inside the page.
        store_time_ms: int64[k], broker's time of the half.
        deadline_ms: int64[k]; asked back in the first batch after it.
        check_times: int64[k], check requests that count.
        identity: int64[k], first word of the identity.
        identity_rest: int64[k], its second word.
    """

    index: NDArray[np.int64]
    store_time_ms: NDArray[np.int64]
    deadline_ms: NDArray[np.int64]
    check_times: NDArray[np.int64]
    identity: NDArray[np.int64]
    identity_rest: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WaitingOps(Columns):
    """Verdicts that wait for their half, in the order they came.

    Args:
        index: int64[w], offset inside the page of the half they name.
        source_offset: int64[w], the op's own, as Events has it.
        wait_until_ms: int64[w]; refused in the first batch after it.
        identity: int64[w], as the op has it.
        state: int64[w], 8 commit, 9 delivered or 12 rollback.
        identity_rest: int64[w], as the op has it.
    """

    index: NDArray[np.int64]
    source_offset: NDArray[np.int64]
    wait_until_ms: NDArray[np.int64]
    identity: NDArray[np.int64]
    state: NDArray[np.int64]
    identity_rest: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SettledOffsets:
    """Remembered verdicts. The identity is not kept: two bits per offset, not ninety-eight.

    Args:
        verdict: uint8[page_size], 0 none, 1 committed, 2 rolled back, 3 discarded (Phase).
        forget_slot: uint16[page_size], position in forget_at_ms, where there is a verdict.
        forget_at_ms: int64[e]; forgotten in the first batch after it.
    """

    verdict: NDArray[np.uint8]
    forget_slot: NDArray[np.uint16]
    forget_at_ms: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Page:
    """The remembered facts of the half offsets from page * page_size on.

    Args:
        page_size: offsets in a page, at most PAGE_SIZE_MAX.
    """

    partition: int
    page: int
    page_size: int
    halves: PendingHalves
    waiting: WaitingOps
    settled: SettledOffsets

    @classmethod
    def empty(cls, partition: int, page: int, page_size: int) -> Page:
        """Return a page of which nothing is remembered."""
        if not 1 <= page_size <= PAGE_SIZE_MAX:
            raise UsageError(
                f"page_size is {page_size}.", remedy=f"It must be from 1 to {PAGE_SIZE_MAX}."
            )
        settled = SettledOffsets(
            np.zeros(page_size, np.uint8), np.zeros(page_size, np.uint16), np.zeros(0, np.int64)
        )
        halves, waiting = PendingHalves.empty(), WaitingOps.empty()
        return cls(partition, page, page_size, halves, waiting, settled)

    @property
    def first_offset(self) -> int:
        """The half offset at index 0."""
        return self.page * self.page_size

    @property
    def pending(self) -> int:
        """How many halves are pending."""
        return len(self.halves)

    @property
    def oldest_ms(self) -> int:
        """The broker's time of the oldest pending half, -1 without any."""
        return int(self.halves.store_time_ms.min()) if len(self.halves) else -1

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered, so that the row can go."""
        return not (len(self.halves) or len(self.waiting) or len(self.settled.forget_at_ms))

    def pack(self) -> bytes:
        """Return the packed form, version 2, little endian, its columns packed narrowly.

        Some 16 bytes per pending half where all came within a minute, twelve of them its identity;
        two bits per offset from the first to the last verdict, and a few bytes per run of verdicts
        that are forgotten at the same time.
        """
        start, packed_verdicts, runs, run_slots = _pack_settled(self.settled)
        header = _HEADER.pack(
            PAGE_VERSION, self.partition, self.page, self.page_size, len(self.halves),
            len(self.waiting), len(self.settled.forget_at_ms), start, len(packed_verdicts),
            len(runs),
        )  # fmt: skip
        return pack_narrow_columns(
            header,
            self.settled.forget_at_ms,
            self.halves.store_time_ms,
            self.halves.deadline_ms,
            self.halves.identity,
            self.halves.identity_rest,
            self.waiting.source_offset,
            self.waiting.wait_until_ms,
            self.waiting.identity,
            self.waiting.identity_rest,
            # An index less its position in the column: 0 until a half before it is settled.
            self.halves.index - np.arange(len(self.halves)),
            self.halves.check_times,
            self.waiting.index,
            runs,
            run_slots,
            self.waiting.state,
            packed_verdicts,
        )

    @classmethod
    def unpack(cls, blob: bytes) -> Page:
        """Return what `pack` packed.

        Raises:
            CheckpointError: an unknown version packed it, or it is damaged.
        """
        refuse_version(blob, PAGE_VERSION, "page")
        reader = Reader(blob, "page")
        header = reader.header(_HEADER)
        column = reader.narrow_column
        version, partition, page, page_size, halves, waiting, *rest_of_header = header
        forget_slots, start, quads, runs = rest_of_header
        forget_at_ms = column("<i8", forget_slots)
        store_time, deadline, identity, rest = (column("<i8", halves) for _ in range(4))
        source_offset, wait_until, *op_identity = (column("<i8", waiting) for _ in range(4))
        index, check_times = (column("<u2", halves).astype(np.int64) for _ in range(2))
        index += np.arange(halves)
        op_index = column("<u2", waiting).astype(np.int64)
        run_lengths, run_slots = (column("<u2", runs) for _ in range(2))
        op_state = column("u1", waiting).astype(np.int64)
        verdict = _unpack_verdicts(column("u1", quads), start, page_size)
        forget_slot = _unpack_slots(verdict, run_lengths, run_slots)
        if version == 1:
            column("u1", halves)
            op_state &= _STATE_BITS
            source_offset = np.where(source_offset < _SOURCE_OF_DIRECT, source_offset, _NO_COPY)
        reader.finish()
        return cls(
            partition,
            page,
            page_size,
            PendingHalves(index, store_time, deadline, check_times, identity, rest),
            WaitingOps(
                op_index, source_offset, wait_until, op_identity[0], op_state, op_identity[1]
            ),
            SettledOffsets(verdict, forget_slot, forget_at_ms),
        )


def _pack_settled(
    settled: SettledOffsets,
) -> tuple[int, NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint16]]:
    """Return the span's first index, four verdicts to the byte, runs less one, their slots.

    Offsets are mostly settled in their order, so the times of forgetting come in few runs. A run is
    packed as its length less one: a whole page of 65,536 fits 16 bits.
    """
    where = np.flatnonzero(settled.verdict)
    if not len(where):
        return 0, np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.uint16)
    start, end = int(where[0]), int(where[-1]) + 1
    quads = np.zeros((-(-(end - start) // 4), 4), np.uint8)
    quads.reshape(-1)[: end - start] = settled.verdict[start:end]
    packed = np.bitwise_or.reduce(quads << _PLACES, axis=1, dtype=np.uint8)
    forget_slot = settled.forget_slot[where]
    last_of_run = np.flatnonzero(np.append(forget_slot[1:] != forget_slot[:-1], True))
    return start, packed, np.diff(last_of_run, prepend=-1) - 1, forget_slot[last_of_run]


def _unpack_verdicts(packed: NDArray[np.uint8], start: int, page_size: int) -> NDArray[np.uint8]:
    span = packed[:, np.newaxis] >> _PLACES & 3
    verdict = np.zeros(page_size, np.uint8)
    part = verdict[start : start + span.size]
    part[:] = span.reshape(-1)[: len(part)]
    return verdict


def _unpack_slots(
    verdict: NDArray[np.uint8], runs: NDArray[np.uint16], run_slots: NDArray[np.uint16]
) -> NDArray[np.uint16]:
    where = np.flatnonzero(verdict)
    forget_slots = np.repeat(run_slots, runs.astype(np.int64) + 1)
    if len(forget_slots) != len(where):
        raise damaged("page")
    forget_slot = np.zeros(len(verdict), np.uint16)
    forget_slot[where] = forget_slots
    return forget_slot
