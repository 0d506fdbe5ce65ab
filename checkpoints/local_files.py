"""A checkpoint on this machine's disks, read without Java.

Hadoop writes a checksum file beside each file, and its readers compare. So does this one: a torn
file is found here as well as there.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from checkback.checkpoints.files import ReadableCheckpoint, UnreadableFileError

_SUMS_HEADER: Final = struct.Struct(">4sI")
_SUMS_MAGIC: Final = b"crc\0"
DEFAULT_FILE_SYSTEM: Final = "fs.defaultFS"
HADOOP_SETTINGS: Final = "HADOOP_CONF_DIR"


def local_folder(checkpoint: str, spark: Mapping[str, str]) -> Path | None:
    """Return the folder of a checkpoint on this machine's disks, None if Hadoop has to be asked."""
    if checkpoint.startswith("file:"):
        return Path(unquote(urlsplit(checkpoint).path))
    names_another = any(name.endswith(DEFAULT_FILE_SYSTEM) for name in spark)
    if "://" in checkpoint or names_another or os.environ.get(HADOOP_SETTINGS):
        return None
    return Path(checkpoint)


@dataclass(frozen=True, slots=True)
class LocalCheckpoint(ReadableCheckpoint):
    """A checkpoint folder on this machine's disks."""

    folder: Path

    @property
    def path(self) -> str:  # type: ignore[override]  # it never changes
        """The folder as text."""
        return str(self.folder)

    def sizes(self) -> Mapping[str, int]:
        """Return every file below the folder with its size in bytes; none where it is missing."""
        return dict(_files_below(self.folder, ""))

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            UnreadableFileError: it can't be read, or differs from its checksums.
        """
        path = self.folder / name
        try:
            content = path.read_bytes()
            sums = path.with_name(f".{path.name}.crc")
            stored = sums.read_bytes() if sums.exists() else None
        except OSError as error:
            raise UnreadableFileError(f"{name}: {error.strerror}") from error
        if stored is not None:
            _require_sums(name, content, stored)
        return content

    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        return (self.folder / name).exists()

    def batch_times_ms(self, log: str) -> dict[int, int]:
        """Return by batch the time when its entry in ``offsets`` or ``commits`` was written."""
        try:
            with os.scandir(self.folder / log) as found:
                batches = [one for one in found if one.name.isdigit()]
        except FileNotFoundError:
            return {}
        return {int(one.name): ms for one in batches if (ms := _modified_ms(one)) is not None}


def _files_below(folder: Path, start: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as listed:
            found = list(listed)
    except (FileNotFoundError, NotADirectoryError):
        return  # never created, or deleted meanwhile by a running pipeline
    for one in found:
        if one.is_dir():
            yield from _files_below(folder / one.name, f"{start}{one.name}/")
        elif not (one.name.startswith(".") and one.name.endswith(".crc")):  # as Hadoop does
            try:
                yield f"{start}{one.name}", one.stat().st_size
            except FileNotFoundError:
                continue


def _modified_ms(entry: os.DirEntry[str]) -> int | None:
    try:
        return int(entry.stat().st_mtime * 1_000)
    except FileNotFoundError:
        return None


def _require_sums(name: str, content: bytes, stored: bytes) -> None:
    magic, chunk = (
        _SUMS_HEADER.unpack_from(stored) if len(stored) >= _SUMS_HEADER.size else (b"", 0)
    )
    chunks = range(0, len(content), chunk) if chunk else range(0)
    sums = [zlib.crc32(content[at : at + chunk]) for at in chunks]
    wanted = struct.pack(f">{len(sums)}I", *sums)
    if magic != _SUMS_MAGIC or stored[_SUMS_HEADER.size :] != wanted:
        raise UnreadableFileError(f"{name}: its checksum is wrong")
