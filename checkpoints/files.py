"""What is needed to read a checkpoint folder, wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from checkback.checkpoints.logs import BrokenLogError, PlannedBatch, parse_offsets
from checkback.protocol.errors import CheckpointError

OUR_FOLDER: Final = "checkback"


class UnreadableFileError(Exception):
    """A file exists but can't be read: its checksum is wrong, or the disk reports an error."""


class FolderFiles(Protocol):
    """What reading files needs; file names are relative to the folder, with slashes."""

    def sizes(self) -> Mapping[str, int]:
        """Return every file below the folder with its size in bytes; none where it is missing."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content, or raise UnreadableFileError."""
        ...

    def read_end(self, name: str, length: int) -> bytes:
        """Return the last bytes of a file (all of a shorter one), or raise UnreadableFileError."""
        ...


class ReadableCheckpoint(FolderFiles, Protocol):
    """What reading a checkpoint needs: through Hadoop (store.py) or from disk (local_files.py)."""

    @property
    def path(self) -> str:
        """The folder or object-store path."""
        ...

    def read_own(self, name: str) -> str | None:
        """Return one of our own files as text, None if it does not exist."""
        ...

    def query_id(self) -> str | None:
        """Return Spark's id of the query, None for a checkpoint that never ran."""
        ...

    def batch_times_ms(self, log: str) -> Mapping[int, int]:
        """Return by batch the time when its entry in ``offsets`` or ``commits`` was written."""
        ...

    def last_batch(self, log: str) -> int | None:
        """Return the highest batch in Spark's ``offsets`` or ``commits`` log, None when empty."""
        ...

    def planned(self, batch: int) -> PlannedBatch:
        """Return Spark's plan of a batch, or raise CheckpointError."""
        ...


def read_own_text(checkpoint: ReadableCheckpoint, name: str) -> str:
    """Return one of our own files, which exists, as text.

    Raises:
        CheckpointError: it can't be read.
    """
    try:
        return checkpoint.read(f"{OUR_FOLDER}/{name}").decode(errors="replace")
    except UnreadableFileError as error:
        raise CheckpointError(
            f"The checkpoint's {name} can't be read: {error}.",
            remedy="Run `checkback checkpoint verify`; see `checkback docs recovering`.",
            checkpoint=checkpoint.path,
        ) from error


def read_plan(files: FolderFiles, batch: int) -> PlannedBatch:
    """Return Spark's plan of a batch.

    Raises:
        CheckpointError: it can't be read.
    """
    try:
        return parse_offsets(files.read(f"offsets/{batch}"))
    except (BrokenLogError, UnreadableFileError) as error:
        raise CheckpointError(
            f"The plan of batch {batch} can't be read: offsets/{batch} is damaged: {error}.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
            batch_id=batch,
        ) from error
