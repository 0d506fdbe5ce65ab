"""Reads the state of a committed batch from its files, without Spark.

A snapshot is a RocksDB database; the changelogs after it hold one batch each (state_files.py says
which files belong to a version). A row's key and value are Spark's UnsafeRow behind one byte for
the encoding. The value is the page's version and blob in a struct, then the row's timeout.
"""

from __future__ import annotations

import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkback.checkpoints.files import FolderFiles, ReadableCheckpoint, UnreadableFileError
from checkback.checkpoints.local_files import LocalCheckpoint
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.checkpoints.spark_files.state_files import (
    CODEC,
    Changes,
    StateFiles,
    changes_of,
    snapshot_tables,
)
from checkback.protocol.errors import CheckpointError, PrerequisiteError

TRIES: Final = 5
"""A running pipeline deletes old files: each further try reads a newer batch."""
_ENCODING_BYTES: Final = 1
_ROW: Final = struct.Struct("<qqq")
"""A row of two fields: which of them are null, then each field's number or place."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One row of the state.

    Args:
        timeout_ms: the batch after this time calls the page.
    """

    state_partition: int
    blob: bytes
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state after a batch.

    Args:
        batch: the last committed one.
    """

    batch: int
    plan: PlannedBatch
    pages: tuple[StoredPage, ...]


def read_state(store: ReadableCheckpoint) -> StoredState | None:
    """Return the state after the last committed batch, None before the first.

    Raises:
        CheckpointError: the state can't be read.
        PrerequisiteError: the state is compressed by another codec than Spark's default.
    """
    for tries_left in reversed(range(TRIES)):
        batch = store.last_batch("commits")
        if batch is None:
            return None
        try:
            plan = store.planned(batch)
            return StoredState(batch, plan, tuple(_pages(store, batch, plan)))
        except (UnreadableFileError, CheckpointError) as error:
            if not tries_left or store.last_batch("commits") == batch:
                raise CheckpointError(
                    f"The state after batch {batch} can't be read: {error}.",
                    remedy="Run `checkback checkpoint verify`.",
                    batch_id=batch,
                ) from error
    return None


def _pages(store: ReadableCheckpoint, batch: int, plan: PlannedBatch) -> Iterator[StoredPage]:
    codec = plan.conf.get(CODEC, "lz4")
    if codec != "lz4":
        raise PrerequisiteError(
            f"The state is compressed by {codec}, Checkback reads only lz4.",
            remedy=f"Leave {CODEC} out.",
        )
    files = StateFiles(store, store.sizes())
    for number in range(plan.state_partitions):
        for value in _values(store, files, number, batch + 1):
            page = _page_of(number, value)
            if page is not None:
                yield page


def _values(store: FolderFiles, files: StateFiles, number: int, version: int) -> Iterator[bytes]:
    snapshot = files.newest_snapshot(number, version)
    changes: Changes = {}
    for at in range(snapshot + 1, version + 1):
        changes.update(changes_of(store.read(f"state/0/{number}/{at}.changelog")))
    if snapshot:
        for key, value in _snapshot_rows(store, f"state/0/{number}", snapshot):
            if key not in changes:
                yield value
    yield from (value for value in changes.values() if value is not None)


def _snapshot_rows(store: FolderFiles, folder: str, version: int) -> Iterator[tuple[bytes, bytes]]:
    # Imported late: most commands read no state.
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="checkback-state-") as work:
        _unpack(store, folder, version, Path(work))
        try:
            database = Rdict(work, Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as error:
            raise UnreadableFileError(f"{folder}/{version}.zip: {error}") from error
        try:
            yield from database.items()
        finally:
            database.close()


def _unpack(store: FolderFiles, folder: str, version: int, work: Path) -> None:
    """Lay a snapshot out as RocksDB wants it: Spark keeps the table files apart."""
    name = f"{folder}/{version}.zip"
    try:
        with zipfile.ZipFile(io.BytesIO(store.read(name))) as archive:
            archive.extractall(work)
            tables = snapshot_tables(archive)
    except (zipfile.BadZipFile, KeyError, ValueError, json.JSONDecodeError) as error:
        raise UnreadableFileError(f"{name}: {error}") from error
    for table in tables:
        stored, place = f"{folder}/SSTs/{table.stored_name}", work / table.name
        if isinstance(store, LocalCheckpoint):
            place.symlink_to((store.folder / stored).resolve())
        else:
            place.write_bytes(store.read(stored))


def _page_of(state_partition: int, value: bytes) -> StoredPage | None:
    row = memoryview(value)[_ENCODING_BYTES:]
    nulls, place, timeout_ms = _ROW.unpack_from(row)
    if nulls & 1:
        return None  # removed, but a timeout was set
    state = _field_bytes(row, place)
    _, _, blob_place = _ROW.unpack_from(state)
    return StoredPage(state_partition, bytes(_field_bytes(state, blob_place)), timeout_ms)


def _field_bytes(row: memoryview, place: int) -> memoryview:
    offset, length = place >> 32, place & 0xFFFFFFFF
    return row[offset : offset + length]
