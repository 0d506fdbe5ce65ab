"""Which state files a version needs, and what is wrong with those that are there."""

from __future__ import annotations

import pytest
from tests.unit.checkpoints.folder_in_memory import CHANGELOG, FilesInMemory, snapshot

from checkback.checkpoints.spark_files.state_files import CODEC, StateFiles


def state(**contents: bytes) -> FilesInMemory:
    """The files of state partition 0, by name with "_" for "."."""
    return FilesInMemory(
        {f"state/0/0/{name.replace('_', '.').lstrip('v')}": one for name, one in contents.items()}
    )


def faulty(files: FilesInMemory, version: int, codec: str = "lz4") -> list[str]:
    found = StateFiles(files, files.sizes()).faults(version, 1, {CODEC: codec})
    return [name.removeprefix("state/0/0/") for name, _ in found]


@pytest.mark.parametrize(
    ("files", "version", "wrong"),
    [
        pytest.param(
            state(v1_changelog=CHANGELOG, v3_changelog=CHANGELOG), 3, ["2.changelog"],
            id="without a snapshot every changelog is needed",
        ),
        pytest.param(
            state(v4_zip=snapshot()), 1, ["1.changelog"],
            id="a snapshot of a later version is of no use",
        ),
        pytest.param(FilesInMemory(), 0, [], id="version 0 is the empty state"),
    ],
)  # fmt: skip
def test_a_version_needs_these_files(files: FilesInMemory, version: int, wrong: list[str]) -> None:
    assert faulty(files, version) == wrong


def test_a_snapshot_replaces_all_changelogs_up_to_its_own() -> None:
    files = state(v2_zip=snapshot(), v3_changelog=CHANGELOG)

    assert faulty(files, 3) == []
    assert StateFiles(files, files.sizes()).newest_snapshot(0, 3) == 2


@pytest.mark.parametrize(("stored", "wrong"), [(b"12345", []), (b"1234", ["SSTs/t.sst"])])
def test_a_table_file_must_have_the_size_that_its_snapshot_says(
    stored: bytes, wrong: list[str]
) -> None:
    files = state(v1_zip=snapshot(t=5))
    files.contents["state/0/0/SSTs/t.sst"] = stored

    assert faulty(files, 1) == wrong


def test_a_changelog_without_its_end_is_cut_off_where_the_codec_marks_the_end() -> None:
    files = state(v1_changelog=CHANGELOG[:-1])

    assert faulty(files, 1) == ["1.changelog"]
    assert faulty(files, 1, codec="zstd") == []


def test_what_the_disk_does_not_give_is_a_fault_and_no_exception() -> None:
    files = state(v1_zip=snapshot(), v2_changelog=CHANGELOG)
    files.unreadable = set(files.contents)

    assert faulty(files, 2) == ["1.zip", "2.changelog"]


def test_the_bytes_of_a_partition_are_those_of_all_its_versions() -> None:
    files = state(v1_changelog=b"123", v2_changelog=b"45")
    files.contents["state/0/01/1.changelog"] = b"another partition's"

    assert StateFiles(files, files.sizes()).bytes_of(0) == 5
