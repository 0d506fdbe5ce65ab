"""The state of a committed batch, read from RocksDB's files without Spark."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from rocksdict import Options, Rdict
from tests.unit.checkpoints.folder_in_memory import END_BLOCK, plan

from checkback.checkpoints.files import UnreadableFileError
from checkback.checkpoints.local_files import LocalCheckpoint
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.checkpoints.spark_files.state_files import changes_of
from checkback.checkpoints.spark_files.state_rows import StoredPage, read_state
from checkback.protocol.errors import CheckpointError, PrerequisiteError

KEPT, REMOVED, CHANGED = b"\0kept", b"\0removed", b"\0changed"


def row(blob: bytes | None, timeout_ms: int) -> bytes:
    """A value as Spark's state store holds it."""
    if blob is None:
        return b"\0" + struct.pack("<qqq", 1, 0, timeout_ms)
    state = struct.pack("<qqq", 0, 1, 24 << 32 | len(blob)) + blob
    return b"\0" + struct.pack("<qqq", 0, 24 << 32 | len(state), timeout_ms) + state


def changelog(changes: Mapping[bytes, bytes | None]) -> bytes:
    parts = [
        struct.pack(">i", len(key)) + key
        + (struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value)
        for key, value in changes.items()
    ]  # fmt: skip
    content = b"".join(parts) + struct.pack(">i", -1)
    packed: bytes = pa.Codec("lz4_raw").compress(content).to_pybytes()
    return (
        b"LZ4Block" + struct.pack("<Biii", 0x25, len(packed), len(content), 0) + packed + END_BLOCK
    )


def write_snapshot(folder: Path, version: int, rows: Mapping[bytes, bytes]) -> None:
    """Write a snapshot as Spark does: the table files apart, under another name."""
    work = folder.parent / f"{folder.name}-database"
    database = Rdict(str(work), Options(raw_mode=True))
    for key, value in rows.items():
        database[key] = value
    database.flush()
    database.close()
    tables = [
        {"localFileName": one.name, "dfsSstFileName": f"a-{one.name}", "sizeBytes": 1}
        for one in work.glob("*.sst")
    ]
    (folder / "SSTs").mkdir(parents=True)
    with zipfile.ZipFile(folder / f"{version}.zip", "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": tables}))
        for one in work.iterdir():
            if one.suffix == ".sst":
                one.rename(folder / "SSTs" / f"a-{one.name}")
            elif one.is_file():
                archive.write(one, one.name)


@pytest.fixture
def store(tmp_path: Path) -> LocalCheckpoint:
    """A checkpoint with a snapshot after batch 0, and batch 1 committed, batch 2 planned."""
    folder = tmp_path / "checkpoint"
    for name in ("offsets", "commits", "state/0/0"):
        (folder / name).mkdir(parents=True)
    for batch in range(3):
        (folder / f"offsets/{batch}").write_bytes(plan(1))
    (folder / "commits/0").touch()
    (folder / "commits/1").touch()
    rows = {KEPT: row(b"kept", 7), REMOVED: row(b"removed", 8), CHANGED: row(b"old", 9)}
    write_snapshot(folder / "state/0/0", 1, rows)
    last = {REMOVED: None, CHANGED: row(b"new", 10), b"\0without": row(None, 11)}
    (folder / "state/0/0/2.changelog").write_bytes(changelog(last))
    unfinished = changelog({KEPT: row(b"of no committed batch", 1)})
    (folder / "state/0/0/3.changelog").write_bytes(unfinished)
    return LocalCheckpoint(folder)


def test_the_state_is_that_of_the_last_committed_batch(store: LocalCheckpoint) -> None:
    held = read_state(store)

    assert held is not None
    assert held.batch == 1
    assert set(held.pages) == {StoredPage(0, b"kept", 7), StoredPage(0, b"new", 10)}


def test_before_the_first_batch_there_is_no_state(tmp_path: Path) -> None:
    assert read_state(LocalCheckpoint(tmp_path / "nowhere")) is None


def test_a_batch_whose_files_have_gone_is_read_from_a_newer_one(store: LocalCheckpoint) -> None:
    class Running(LocalCheckpoint):
        """A checkpoint whose pipeline commits a batch while the state is read."""

        def planned(self, batch: int) -> PlannedBatch:
            if batch == 1:
                (self.folder / "commits/2").touch()
                raise CheckpointError("gone")
            return LocalCheckpoint.planned(self, batch)

    held = read_state(Running(store.folder))

    assert held is not None
    assert held.batch == 2
    assert StoredPage(0, b"of no committed batch", 1) in held.pages


def test_a_state_that_stays_unreadable_is_an_error(store: LocalCheckpoint) -> None:
    (store.folder / "state/0/0/2.changelog").write_bytes(b"")

    with pytest.raises(CheckpointError, match="batch 1 can't be read"):
        read_state(store)


def test_a_missing_table_file_is_an_error(store: LocalCheckpoint) -> None:
    for one in (store.folder / "state/0/0/SSTs").iterdir():
        one.unlink()

    with pytest.raises(CheckpointError, match=r"1\.zip"):
        read_state(store)


def test_another_codec_is_refused(store: LocalCheckpoint) -> None:
    conf = {"spark.sql.shuffle.partitions": "1"}
    conf["spark.sql.streaming.stateStore.compression.codec"] = "zstd"
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf})
    (store.folder / "offsets/1").write_text(f"v1\n{metadata}\n-")

    with pytest.raises(PrerequisiteError, match="zstd"):
        read_state(store)


@pytest.mark.parametrize("length", [0, 20, 30, 60])
def test_a_changelog_that_is_cut_off_is_noticed(length: int) -> None:
    whole = changelog({b"key": b"a value that is long enough " * 3})

    with pytest.raises(UnreadableFileError, match="cut off"):
        changes_of(whole[:length])
