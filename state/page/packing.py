"""Packed blobs: a header that begins with the version byte, then columns of numbers.

A column is packed plainly or narrowly. Narrowly means: its least number, then each number's
difference to that, in as few bytes as the largest difference needs, in none if all are equal.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.errors import CheckpointError

RESTORE: Final = "Restore the checkpoint from a backup, or rebuild it from the topics."
_NARROW: Final = struct.Struct("<Bq")
"""Before a narrow column: bytes for each number, and the least one."""
WIDEST: Final = 8
COUNT_MAX: Final = 2**24
"""The most equal numbers that a header may announce. They take no bytes, so a damaged header could
announce more than memory holds. A page has 65,536 offsets."""
_UNSIGNED: Final = {1: "u1", 2: "<u2", 4: "<u4"}


def pack_columns(header: bytes, *columns: tuple[NDArray[Any], str]) -> bytes:
    """Return the header and the columns, each cast to its numpy type, one after the other."""
    return b"".join([header, *(column.astype(kind).tobytes() for column, kind in columns)])


def pack_narrow_columns(header: bytes, *columns: NDArray[Any]) -> bytes:
    """Return the header and the columns, each packed narrowly."""
    parts = [header]
    for column in columns:
        if len(column):
            parts += _narrow(column)
    return b"".join(parts)


def _narrow(column: NDArray[Any]) -> tuple[bytes, bytes]:
    least, largest = int(column.min()), int(column.max())
    if least == largest:
        return _NARROW.pack(0, least), b""
    for width, unsigned in _UNSIGNED.items():
        if largest - least < 256**width:
            above = (column - column.dtype.type(least)).astype(unsigned)
            return _NARROW.pack(width, least), above.tobytes()
    return _NARROW.pack(WIDEST, 0), column.astype("<i8").tobytes()


def refuse_version(blob: bytes, known: int, what: str) -> None:
    """Refuse a blob of an unknown version; every version up to the given one is known.

    Raises:
        CheckpointError: the blob is empty or of another version.
    """
    if not blob:
        raise damaged(what)
    if not 1 <= blob[0] <= known:
        raise CheckpointError(
            f"A {what} in this checkpoint has version {blob[0]}; "
            f"this Checkback reads versions up to {known}.",
            remedy="Run the version that wrote it, or a newer one.",
            version=blob[0],
            known=known,
        )


def damaged(what: str) -> CheckpointError:
    """Return the error for a blob of another length than its header says."""
    return CheckpointError(f"A {what} in this checkpoint is damaged.", remedy=RESTORE)


class Reader:
    """Reads a blob front to back."""

    def __init__(self, blob: bytes, what: str) -> None:
        self._blob = blob
        self._what = what
        self._at = 0

    def header(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the header's fields."""
        if len(self._blob) < layout.size:
            raise damaged(self._what)
        self._at = layout.size
        return layout.unpack_from(self._blob)

    def column(self, kind: str, count: int) -> NDArray[Any]:
        """Return the next column: a view, not to be written to."""
        dtype = np.dtype(kind)
        end = self._at + dtype.itemsize * count
        if end > len(self._blob):
            raise damaged(self._what)
        column = np.frombuffer(self._blob, dtype, count, self._at)
        self._at = end
        return column

    def narrow_column(self, kind: str, count: int) -> NDArray[Any]:
        """Return the next column, packed narrowly, as numbers of that numpy type."""
        if not count:
            return np.zeros(0, kind)
        if len(self._blob) < self._at + _NARROW.size:
            raise damaged(self._what)
        width, least = _NARROW.unpack_from(self._blob, self._at)
        self._at += _NARROW.size
        if width == 0 and count <= COUNT_MAX:
            return np.full(count, least, np.int64).astype(kind, copy=False)
        if width == WIDEST:
            return self.column("<i8", count).astype(kind, copy=False)
        if width not in _UNSIGNED:
            raise damaged(self._what)
        numbers: NDArray[np.int64] = np.add(
            self.column(_UNSIGNED[width], count), least, dtype=np.int64
        )
        return numbers.astype(kind, copy=False)

    def finish(self) -> None:
        """Refuse bytes that are left over."""
        if self._at != len(self._blob):
            raise damaged(self._what)
