"""The interface for reading a checkpoint folder, on disk or through Hadoop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from checkback.checkpoints.spark_files.logs import (
    OPERATOR_METADATA,
    STATE_SCHEMA,
    BrokenLogError,
    PlannedBatch,
    parse_commit,
    parse_offsets,
    parse_operator,
    parse_query_id,
    require_schema,
)
from checkback.protocol.errors import CheckpointError

OUR_FOLDER: Final = "checkback"
T = TypeVar("T")


class UnreadableFileError(Exception):
    """A file exists but can't be read: its checksum is wrong, or the disk reports an error."""


class FolderFiles(Protocol):
    """Reads the files of a folder; file names are relative to it, with slashes."""

    def sizes(self) -> Mapping[str, int]:
        """Return every file below the folder with its size in bytes; none where it is missing."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content, or raise UnreadableFileError."""
        ...


class ReadableCheckpoint(FolderFiles, ABC):
    """A checkpoint to read: through Hadoop (store.py) or from disk (local_files.py)."""

    path: str

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name."""

    @abstractmethod
    def batch_times_ms(self, log: str) -> dict[int, int]:
        """Return by batch the time when its entry in ``offsets`` or ``commits`` was written."""

    def query_id(self) -> str | None:
        """Return Spark's id of the query, None for a checkpoint that never ran."""
        if not self.exists("metadata"):
            return None
        return read_log(self, "metadata", parse_query_id, "The id of the query")

    def last_batch(self, log: str) -> int | None:
        """Return the highest batch in Spark's ``offsets`` or ``commits`` log, None when empty."""
        return max(self.batch_times_ms(log), default=None)

    def planned(self, batch: int) -> PlannedBatch:
        """Return Spark's plan of a batch."""
        return read_log(self, f"offsets/{batch}", parse_offsets, f"The plan of batch {batch}")

    def read_own(self, name: str) -> str | None:
        """Return one of Checkback's own files as text, None if it does not exist."""
        if not self.exists(f"{OUR_FOLDER}/{name}"):
            return None
        try:
            return self.read(f"{OUR_FOLDER}/{name}").decode(errors="replace")
        except UnreadableFileError as error:
            raise CheckpointError(
                f"The checkpoint's {name} can't be read: {error}.",
                remedy="Run `checkback checkpoint verify`; see `checkback docs recovering`.",
                checkpoint=self.path,
            ) from error


NOT_AS_WRITTEN: Final = (ValueError, TypeError, LookupError, AttributeError)
"""What parsing raises where Checkback did not write one of its own files as it is."""


def damaged_file(name: str, error: Exception) -> CheckpointError:
    """Return the error for one of Checkback's own files that is not as Checkback writes it."""
    return CheckpointError(
        f"The checkpoint's {name} can't be read: {error!r}.",
        remedy="Restore it from a backup, or run `checkback checkpoint rebuild`; see `checkback "
        "docs recovering`.",
        file=name,
    )


def require_readable(checkpoint: ReadableCheckpoint) -> None:
    """Refuse a checkpoint of which a start needs a file that Spark could not read.

    After a power loss a file may be empty or torn. Spark's own error names no file, or none that
    one could do anything about, and looks like one that passes.

    Raises:
        CheckpointError: names the file.
    """
    committed = checkpoint.last_batch("commits")
    if committed is not None:
        about = f"The commit of batch {committed}"
        read_log(checkpoint, f"commits/{committed}", parse_commit, about)
        read_log(checkpoint, OPERATOR_METADATA, parse_operator, "What Spark says of the state")
        read_log(checkpoint, STATE_SCHEMA, require_schema, "The schema of the state")


def read_log(files: FolderFiles, name: str, parse: Callable[[bytes], T], about: str) -> T:
    """Return what one of Spark's log files says."""
    try:
        return parse(files.read(name))
    except (BrokenLogError, UnreadableFileError) as error:
        raise CheckpointError(
            f"{about} can't be read: {name} is damaged: {error}.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
            file=name,
        ) from error
