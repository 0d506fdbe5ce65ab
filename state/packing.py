"""Packed blobs: a header whose first byte is the version, then columns of numbers."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkback.protocol.errors import CheckpointError

RESTORE: Final = "Restore the checkpoint from a backup, or rebuild it from the topics."


def pack_columns(header: bytes, *columns: tuple[NDArray[Any], str]) -> bytes:
    """Return the header and the columns, each cast to its numpy type, one after the other."""
    return b"".join([header, *(column.astype(kind).tobytes() for column, kind in columns)])


def refuse_version(blob: bytes, known: int, what: str) -> None:
    """Refuse a blob of another version than the known one.

    Raises:
        CheckpointError: the blob is empty or of another version.
    """
    if not blob:
        raise damaged(what)
    if blob[0] != known:
        raise CheckpointError(
            f"A {what} in this checkpoint has version {blob[0]}; "
            f"this Checkback reads version {known}.",
            remedy="Run the version that wrote it, or a newer one.",
            version=blob[0],
            known=known,
        )


def damaged(what: str) -> CheckpointError:
    """Return the error for a blob whose length is not what its header says."""
    return CheckpointError(f"A {what} in this checkpoint is damaged.", remedy=RESTORE)


class Reader:
    """Reads a blob front to back.

    Args:
        blob: the bytes.
        what: what they are, for errors.
    """

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

    def finish(self) -> None:
        """Refuse bytes that are left over."""
        if self._at != len(self._blob):
            raise damaged(self._what)
