"""The files of Spark's RocksDB state store, and whether a version of it is complete.

``state/0/<partition>/<version>.zip`` is a snapshot; its ``metadata`` names the table files that
lie in ``SSTs/``. ``<version>.changelog`` is what one batch changed. A version is read by the newest
snapshot at or below it and every changelog after that; without a snapshot, from the empty state.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkback.checkpoints.files import FolderFiles, UnreadableFileError

CODEC: Final = "spark.sql.streaming.stateStore.compression.codec"
_BLOCK_MAGIC: Final = b"LZ4Block"
END_BLOCK_BYTES: Final = 21
"""Magic, method and three lengths that are zero: how net.jpountz's block stream ends."""

Fault = tuple[str, str]
"""The file, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The state's files of one checkpoint.

    Args:
        files: the folder.
        sizes: what is in it.
    """

    files: FolderFiles
    sizes: Mapping[str, int]

    def faults(self, version: int, partitions: int, conf: Mapping[str, str]) -> list[Fault]:
        """Return what keeps that version from being read; nothing where it is whole.

        Args:
            version: of the state: batch + 1.
            partitions: how many the state has.
            conf: the settings that are frozen with the batch.
        """
        is_lz4 = conf.get(CODEC, "lz4") == "lz4"
        return [
            fault
            for number in range(partitions)
            for fault in self._partition_faults(number, version, is_lz4=is_lz4)
        ]

    def bytes_of(self, partition: int) -> int:
        """Return what all versions of a partition's state take up."""
        start = f"state/0/{partition}/"
        return sum(size for name, size in self.sizes.items() if name.startswith(start))

    def _partition_faults(self, number: int, version: int, *, is_lz4: bool) -> Iterator[Fault]:
        snapshot = max((at for at in self._snapshots(number) if at <= version), default=0)
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
        for table, size in tables.items():
            file = f"state/0/{number}/SSTs/{table}"
            found = self.sizes.get(file)
            if found != size:
                yield file, f"{name} needs it with {size} bytes, it has {found or 'none'}."

    def _changelog_faults(self, name: str, *, is_lz4: bool) -> Iterator[Fault]:
        if name not in self.sizes:
            yield name, "The changelog is missing, and no newer snapshot takes its place."
            return
        try:
            end = self.files.read_end(name, END_BLOCK_BYTES)
        except UnreadableFileError as error:
            yield name, f"The changelog can't be read: {error}."
            return
        if is_lz4 and not _is_end_block(end):
            yield name, "The changelog is cut off."


def _table_files(snapshot: bytes) -> dict[str, int]:
    with zipfile.ZipFile(io.BytesIO(snapshot)) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken} has another checksum")
        text = archive.read("metadata").decode()
    metadata: dict[str, Any] = json.loads(text.partition("\n")[2])
    return {str(one["dfsSstFileName"]): int(one["sizeBytes"]) for one in metadata["sstFiles"]}


def _is_end_block(end: bytes) -> bool:
    return end.startswith(_BLOCK_MAGIC) and end[len(_BLOCK_MAGIC) + 1 :] == bytes(12)
