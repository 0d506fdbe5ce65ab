"""A checkpoint on disk, read without Java."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from tests.unit.checkpoints.folder_in_memory import COMMIT, operator, plan

from checkback.checkpoints.files import ReadableCheckpoint, UnreadableFileError, require_readable
from checkback.checkpoints.local_files import LocalCheckpoint, local_folder
from checkback.protocol.errors import CheckpointError


@pytest.fixture
def store(tmp_path: Path) -> LocalCheckpoint:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/3").write_bytes(plan(2))
    (tmp_path / "offsets/.3.crc").write_bytes(sums(plan(2)))
    (tmp_path / "metadata").write_text('{"id":"6a5b"}')
    return LocalCheckpoint(tmp_path)


def sums(content: bytes, chunk: int = 512) -> bytes:
    parts = [content[at : at + chunk] for at in range(0, len(content), chunk)]
    told = b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts)
    return b"crc\0" + struct.pack(">I", chunk) + told


def test_files_are_listed_without_their_checksums(store: ReadableCheckpoint) -> None:
    assert store.sizes() == {"offsets/3": len(plan(2)), "metadata": 13}


def test_what_is_read_is_compared_with_its_checksums(store: LocalCheckpoint) -> None:
    assert store.planned(3).state_partitions == 2
    (store.folder / "offsets/3").write_bytes(plan(3))

    with pytest.raises(UnreadableFileError, match="checksum"):
        store.read("offsets/3")
    with pytest.raises(CheckpointError, match="batch 3"):
        store.planned(3)


def test_a_long_file_has_several_checksums(store: LocalCheckpoint) -> None:
    content = bytes(1_300)
    (store.folder / "long").write_bytes(content)
    (store.folder / ".long.crc").write_bytes(sums(content))

    assert store.read("long") == content


def test_a_folder_that_never_was_is_empty(tmp_path: Path) -> None:
    store = LocalCheckpoint(tmp_path / "nowhere")

    assert store.sizes() == {}
    assert store.last_batch("commits") is None
    assert store.query_id() is None
    assert store.read_own("identity.json") is None


def test_the_owner_and_the_batches_are_known(store: LocalCheckpoint) -> None:
    (store.folder / "checkback").mkdir()
    (store.folder / "checkback/identity.json").write_text("{}")

    assert store.query_id() == "6a5b"
    assert store.last_batch("offsets") == 3
    assert store.read_own("identity.json") == "{}"


def test_hadoop_is_asked_for_everything_that_is_not_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert local_folder("/a/b", {}) == Path("/a/b")
    assert local_folder("file:///a/b%20c", {}) == Path("/a/b c")
    assert local_folder("s3a://bucket/a", {}) is None
    assert local_folder("/a/b", {"spark.hadoop.fs.defaultFS": "hdfs://n"}) is None
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert local_folder("/a/b", {}) is None
    assert local_folder("file:/a/b", {}) == Path("/a/b")


def write(folder: Path, name: str, content: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


@pytest.fixture
def begun(store: LocalCheckpoint) -> LocalCheckpoint:
    write(store.folder, "commits/1", b"torn")  # nobody needs that one
    write(store.folder, "commits/2", COMMIT)
    write(store.folder, "state/0/_metadata/metadata", operator())
    write(store.folder, "state/0/0/_metadata/schema", b"schema")
    return store


def test_a_start_needs_what_spark_reads_of_an_old_checkpoint_only(
    tmp_path: Path, begun: LocalCheckpoint
) -> None:
    require_readable(LocalCheckpoint(tmp_path / "new"))
    require_readable(begun)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("commits/2", 0),
        ("commits/2", 9),
        ("state/0/_metadata/metadata", 0),
        ("state/0/_metadata/metadata", 9),
        ("state/0/0/_metadata/schema", 0),
    ],
)
def test_a_start_names_the_file_that_a_power_loss_tore(
    begun: LocalCheckpoint, name: str, left: int
) -> None:
    write(begun.folder, name, (begun.folder / name).read_bytes()[:left])

    with pytest.raises(CheckpointError, match=f"{name} is damaged") as refusal:
        require_readable(begun)
    assert "rebuild" in refusal.value.remedy
