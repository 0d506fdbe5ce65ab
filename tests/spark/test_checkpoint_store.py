"""A checkpoint's files on this machine's disk, as the store reads and writes them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.checkpoints.files import UnreadableFileError
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError, PrerequisiteError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def store(spark: SparkSession, folder: Path) -> CheckpointStore:
    return CheckpointStore.of(spark, str(folder))


def test_a_folder_that_does_not_exist_is_empty(store: CheckpointStore) -> None:
    assert store.is_empty()
    assert store.is_local()
    assert store.scheme == "file"
    assert store.sizes() == {}
    assert store.last_batch("offsets") is None
    assert store.query_id() is None
    assert store.read_own("identity.json") is None
    store.delete("offsets/4")
    store.delete_all()


def test_files_are_listed_read_and_deleted_by_their_names(store: CheckpointStore) -> None:
    store.replace("offsets/3", "begin and end")
    store.replace_own("identity.json", "{}")
    store.replace_own("identity.json", "new")

    assert store.sizes() == {"offsets/3": 13, "checkback/identity.json": 3}
    assert store.read("offsets/3") == b"begin and end"
    assert store.read_own("identity.json") == "new"
    store.delete("offsets")
    assert store.sizes().keys() == {"checkback/identity.json"}


def test_a_new_file_is_made_once(store: CheckpointStore) -> None:
    assert store.create_own("rules/1.json", "first") is True
    assert store.create_own("rules/1.json", "second") is False

    assert store.read_own("rules/1.json") == "first"
    assert store.sizes().keys() == {"checkback/rules/1.json"}


def test_of_many_that_make_the_same_file_one_is_told_that_it_did(store: CheckpointStore) -> None:
    for turn in range(5):
        with ThreadPoolExecutor(8) as threads:
            texts = [f"writer {number}" for number in range(8)]
            made = threads.map(lambda text: store.create_own(f"{turn}", text), texts)  # noqa: B023

        (winner,) = [text for text, was_made in zip(texts, made, strict=True) if was_made]
        assert store.read_own(f"{turn}") == winner


def test_where_there_are_no_hard_links_a_file_is_renamed(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: str) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", refuse)

    assert store.create_own("rules/1.json", "first") is True
    assert store.create_own("rules/1.json", "second") is False
    assert store.read_own("rules/1.json") == "first"
    assert store.sizes().keys() == {"checkback/rules/1.json"}


def test_what_can_t_be_written_is_told(spark: SparkSession, folder: Path) -> None:
    folder.write_text("no folder")
    store = CheckpointStore.of(spark, str(folder / "below"))

    with pytest.raises(PrerequisiteError, match="can't be written"):
        store.replace_own("identity.json", "{}")
    with pytest.raises(PrerequisiteError, match="can't be written"):
        store.create_own("identity.json", "{}")


def test_a_file_whose_checksum_is_wrong_is_unreadable(store: CheckpointStore, folder: Path) -> None:
    store.replace_own("identity.json", "{}")
    store.replace("offsets/3", "a plan")
    (folder / "checkback" / "identity.json").write_text("[]")
    (folder / "offsets" / "3").write_text("a flat")

    with pytest.raises(UnreadableFileError):
        store.read("offsets/3")
    with pytest.raises(CheckpointError, match="batch 3"):
        store.planned(3)
    with pytest.raises(CheckpointError, match=r"identity\.json"):
        store.read_own("identity.json")


def test_a_query_keeps_the_id_that_it_was_given(store: CheckpointStore) -> None:
    store.replace_own("identity.json", "{}")

    made = store.make_query_id()

    assert store.make_query_id() == made == store.query_id()
    assert json.loads(store.read("metadata"))["id"] == made


@pytest.mark.parametrize("text", ["", '{"id":"6a'])
def test_a_torn_query_id_is_refused_and_not_replaced(store: CheckpointStore, text: str) -> None:
    store.replace("metadata", text)

    with pytest.raises(CheckpointError, match="metadata is damaged"):
        store.make_query_id()
    assert store.read("metadata").decode() == text


def test_a_folder_that_is_moved_aside_keeps_what_it_holds(store: CheckpointStore) -> None:
    store.replace_own("identity.json", "{}")

    moved = store.move_aside()

    assert store.is_empty()
    assert (Path(moved) / "checkback" / "identity.json").read_text() == "{}"
