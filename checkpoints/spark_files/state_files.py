"""The files of Spark's RocksDB state store, and a check whether a version of the state is complete.

``state/0/<partition>/<version>.zip`` is a snapshot; its ``metadata`` names the table files in
``SSTs/``. ``<version>.changelog`` holds the changes of one batch. Spark restores a version from the
newest snapshot at or below it and every changelog after that; without a snapshot, from the empty
state.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from checkback.checkpoints.files import FolderFiles, UnreadableFileError

CODEC: Final = "spark.sql.streaming.stateStore.compression.codec"
_BLOCK: Final = struct.Struct("<8sBiii")
_STORED_RAW: Final = 0x10
_METHOD: Final = 0xF0
_LENGTH: Final = struct.Struct(">i")

Changes = dict[bytes, bytes | None]
"""Values by key, None where the row was deleted."""
Fault = tuple[str, str]
"""A file, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table file of a snapshot.

    Args:
        name: as RocksDB calls it.
        stored_name: as Spark calls it in ``SSTs/``.
    """

    name: str
    stored_name: str
    size: int


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The state files of one checkpoint."""

    files: FolderFiles
    sizes: Mapping[str, int]

    def faults(self, version: int, partitions: int, conf: Mapping[str, str]) -> list[Fault]:
        """Return the faults that keep a version from being read; none if the version is whole.

        Args:
            version: version of the state: batch + 1.
            conf: the Spark settings recorded with the batch.
        """
        is_lz4 = conf.get(CODEC, "lz4") == "lz4"
        return [
            fault
            for number in range(partitions)
            for fault in self._partition_faults(number, version, is_lz4=is_lz4)
        ]

    def bytes_of(self, partition: int) -> int:
        """Return the size of all versions of a partition's state."""
        start = f"state/0/{partition}/"
        return sum(size for name, size in self.sizes.items() if name.startswith(start))

    def newest_snapshot(self, partition: int, version: int) -> int:
        """Return the newest snapshot at or below a version; 0, the empty state, without one."""
        return max((at for at in self._snapshots(partition) if at <= version), default=0)

    def _partition_faults(self, number: int, version: int, *, is_lz4: bool) -> Iterator[Fault]:
        snapshot = self.newest_snapshot(number, version)
        if snapshot:
            yield from self._snapshot_faults(number, snapshot)
        for at in range(snapshot + 1, version + 1):
            yield from self._changelog_faults(f"state/0/{number}/{at}.changelog", is_lz4=is_lz4)

    def _snapshots(self, number: int) -> Iterator[int]:
        start = f"state/0/{number}/"
        for name in self.sizes:
            stem = name.removeprefix(start).removesuffix(".zip")
            if name.startswith(start) and name.endswith(".zip") and stem.isdigit():
                yield int(stem)

    def _snapshot_faults(self, number: int, version: int) -> Iterator[Fault]:
        name = f"state/0/{number}/{version}.zip"
        try:
            tables = _table_files(self.files.read(name))
        except (UnreadableFileError, zipfile.BadZipFile, KeyError, ValueError) as error:
            yield name, f"The snapshot can't be read: {error}."
            return
        for table in tables:
            file = f"state/0/{number}/SSTs/{table.stored_name}"
            found = self.sizes.get(file)
            if found != table.size:
                yield file, f"{name} needs it with {table.size} bytes, it has {found or 'none'}."

    def _changelog_faults(self, name: str, *, is_lz4: bool) -> Iterator[Fault]:
        if name not in self.sizes:
            yield name, "The changelog is missing, and no newer snapshot replaces it."
            return
        try:
            content = self.files.read(name)
            if is_lz4:
                changes_of(content)
        except UnreadableFileError as error:
            yield name, f"The changelog can't be read: {error}."


def snapshot_tables(archive: zipfile.ZipFile) -> list[TableFile]:
    """Return the table files that a snapshot names in its metadata.

    Raises:
        KeyError, ValueError: its metadata is not as Spark writes it.
    """
    text = archive.read("metadata").decode()
    metadata: dict[str, Any] = json.loads(text.partition("\n")[2])
    return [
        TableFile(str(one["localFileName"]), str(one["dfsSstFileName"]), int(one["sizeBytes"]))
        for one in metadata["sstFiles"]
    ]


def _table_files(snapshot: bytes) -> list[TableFile]:
    with zipfile.ZipFile(io.BytesIO(snapshot)) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken} has another checksum")
        return snapshot_tables(archive)


def changes_of(changelog: bytes) -> Changes:
    """Return what one batch changed: the last value of each key.

    Raises:
        UnreadableFileError: the file is cut off.
    """
    content, at, changes = memoryview(_decompressed(changelog)), 0, Changes()
    try:
        while (key_length := _LENGTH.unpack_from(content, at)[0]) >= 0:
            at += _LENGTH.size
            key, at = bytes(content[at : at + key_length]), at + key_length
            length = _LENGTH.unpack_from(content, at)[0]
            at += _LENGTH.size
            changes[key] = None if length < 0 else bytes(content[at : at + length])
            at += max(0, length)
    except struct.error as error:
        raise UnreadableFileError(f"a changelog is cut off: {error}") from error
    return changes


def _decompressed(stream: bytes) -> bytes:
    """Return the content of a stream of LZ4 blocks, as net.jpountz writes them."""
    codec, at = pa.Codec("lz4_raw"), 0
    parts: list[bytes] = []
    try:
        while True:
            _, token, stored, length, _ = _BLOCK.unpack_from(stream, at)
            at += _BLOCK.size
            if not length:
                return b"".join(parts)
            block, at = stream[at : at + stored], at + stored
            is_raw = token & _METHOD == _STORED_RAW
            parts.append(block if is_raw else codec.decompress(block, length, asbytes=True))
    except (struct.error, pa.ArrowException, OSError) as error:
        raise UnreadableFileError(f"a changelog is cut off: {error}") from error
