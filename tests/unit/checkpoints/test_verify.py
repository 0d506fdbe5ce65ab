"""Which parts of a checkpoint folder are whole, and up to which batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from tests.unit.checkpoints.folder_in_memory import (
    CHANGELOG,
    FilesInMemory,
    identity,
    plan,
    snapshot,
    sound,
)

from checkback.checkpoints.files import UnreadableFileError
from checkback.operations.checkpoint.verification import (
    IF_IT_RUNS,
    STOP_FIRST,
    Verification,
    with_running,
)
from checkback.operations.checkpoint.verify import compare_markers, verify


def codes(found: Verification) -> list[tuple[str, str]]:
    return [(one.code, one.file) for one in found.problems]


def test_a_sound_checkpoint_has_no_problem() -> None:
    found = verify(sound())

    assert found.problems == ()
    assert (found.query_id, found.state_partitions) == ("6a5b", 2)
    assert (found.planned_batch, found.committed_batch, found.whole_batch) == (4, 3, 3)


def test_one_that_was_bound_and_never_ran_is_sound() -> None:
    found = verify(FilesInMemory({"checkback/identity.json": identity()}))

    assert found.problems == ()
    assert (found.planned_batch, found.committed_batch, found.whole_batch) == (None, None, None)


def test_an_empty_folder_is_none() -> None:
    assert codes(verify(FilesInMemory())) == [("missing", "")]


def without(name: str) -> Callable[[FilesInMemory], None]:
    def damage(files: FilesInMemory) -> None:
        del files.contents[name]

    return damage


def with_content(name: str, content: bytes) -> Callable[[FilesInMemory], None]:
    return lambda files: files.contents.update({name: content})


def unreadable(name: str) -> Callable[[FilesInMemory], None]:
    return lambda files: files.unreadable.add(name)


@pytest.mark.parametrize(
    ("damage", "problem", "whole"),
    [
        (with_content("offsets/4", b"v1\n{"), ("torn", "offsets/4"), 3),
        (with_content("offsets/3", b"v1\n{"), ("torn", "offsets/3"), 2),
        (unreadable("offsets/3"), ("torn", "offsets/3"), 2),
        (with_content("commits/3", b""), ("torn", "commits/3"), 2),
        (without("offsets/2"), ("hole", "offsets/2"), 3),
        (without("commits/2"), ("hole", "commits/2"), 3),
        (without("commits/3"), ("missing", "commits/3"), 2),
        (without("state/0/1/4.changelog"), ("state", "state/0/1/4.changelog"), 2),
        (without("state/0/1/2.changelog"), ("state", "state/0/1/2.changelog"), 0),
        (without("state/0/1/1.changelog"), ("state", "state/0/1/1.changelog"), None),
        (unreadable("state/0/0/4.changelog"), ("state", "state/0/0/4.changelog"), 2),
        (
            with_content("state/0/0/4.changelog", CHANGELOG[:-1]),
            ("state", "state/0/0/4.changelog"),
            2,
        ),
        (with_content("state/0/0/4.zip", b"no zip"), ("state", "state/0/0/4.zip"), 2),
        (without("metadata"), ("missing", "metadata"), 3),
        (with_content("checkback/terms/10.json", b"{"), ("torn", "checkback/terms/10.json"), 3),
        (with_content("checkback/identity.json", b"{}"), ("torn", "checkback/identity.json"), 3),
        (
            with_content("checkback/identity.json", identity(5)),
            ("partitions", "checkback/identity.json"),
            3,
        ),
        (without("state/0/_metadata/metadata"), ("missing", "state/0/_metadata/metadata"), None),
        (without("state/0/0/_metadata/schema"), ("missing", "state/0/0/_metadata/schema"), None),
    ],
)
def test_each_damage_is_named_and_limits_what_is_whole(
    damage: Callable[[FilesInMemory], None], problem: tuple[str, str], whole: int | None
) -> None:
    files = sound()
    damage(files)

    found = verify(files)

    assert problem in codes(found)
    assert found.whole_batch == whole
    assert all(one.says and one.remedy for one in found.problems)


def test_a_snapshot_needs_its_table_files() -> None:
    files = sound()
    files.contents |= {"state/0/1/3.zip": snapshot(a=3, b=3), "state/0/1/SSTs/a.sst": b"ab"}

    found = verify(files)

    assert codes(found) == [("state", "state/0/1/SSTs/a.sst"), ("state", "state/0/1/SSTs/b.sst")]
    assert found.whole_batch == 1


def test_state_is_looked_for_by_the_partitions_of_each_batch() -> None:
    """The state after a repartition: the last batch has three partitions, those before have two."""
    files = sound(committed=3, planned=3)
    files.contents["offsets/3"] = plan(3)
    files.contents["checkback/identity.json"] = identity(3)
    for number in range(3):
        files.contents.pop(f"state/0/{number}/4.changelog", None)
        files.contents[f"state/0/{number}/4.zip"] = snapshot()

    found = verify(files)

    assert found.problems == ()
    assert (found.state_partitions, found.whole_batch) == (3, 3)


@pytest.mark.parametrize(
    ("markers", "expected"),
    [
        ({0: 4, 1: 4}, []),
        ({0: 5, 1: 4}, []),  # one state partition has written the planned batch
        ({0: 1, 1: 4}, []),  # one state partition had nothing to write for a while
        ({1: 4}, ["marker-missing"]),
        ({}, ["marker-missing", "marker-missing"]),
        ({0: 6, 1: 4}, ["marker-ahead"]),
    ],
)
def test_markers_are_compared_with_the_batches(
    markers: dict[int, int], expected: list[str]
) -> None:
    found = compare_markers(verify(sound()), markers, "app-marker-6a5b")

    assert [one.code for one in found.problems] == expected
    assert found.markers == markers
    assert found.is_whole is not bool(expected)


def test_state_partitions_that_a_repartition_is_adding_need_no_marker_yet() -> None:
    files = sound(committed=3, planned=3)
    files.contents["offsets/3"] = plan(3)
    files.contents["state/0/2/4.zip"] = snapshot()

    found = compare_markers(verify(files), {0: 4, 1: 4}, "app-marker-6a5b")

    assert [one.code for one in found.problems] == ["partitions"]


def test_what_the_ledger_has_is_written_though_no_marker_moved() -> None:
    found = compare_markers(verify(sound()), {0: 4, 1: 4}, "app-marker-6a5b")

    assert found.written_batch == 3
    assert replace(found, ledger_batch=4).written_batch == 4


def test_before_the_first_committed_batch_no_marker_is_missed() -> None:
    found = replace(verify(sound()), committed_batch=None, planned_batch=0)

    assert compare_markers(found, {}, "app-marker-6a5b").problems == ()
    assert compare_markers(found, {0: 1}, "app-marker-6a5b").written_batch == 0


class AtWork(FilesInMemory):
    """Files of a running pipeline: between two listings it deletes its oldest batch."""

    def sizes(self) -> Mapping[str, int]:
        listed = super().sizes()
        oldest = min((name for name in listed if name.startswith("offsets/")), default="")
        number = oldest.removeprefix("offsets/")
        if number and int(number) < 3:
            for log in ("offsets", "commits"):
                del self.contents[f"{log}/{number}"]
        return listed

    def read(self, name: str) -> bytes:
        if name not in self.contents:
            raise UnreadableFileError("it is gone")
        return super().read(name)


def test_files_that_a_running_pipeline_deletes_are_no_problem() -> None:
    found = verify(AtWork(sound().contents))

    assert found.problems == ()
    assert found.whole_batch == 3


def test_what_is_torn_beside_a_running_pipeline_is_still_found() -> None:
    files = AtWork(sound().contents)
    files.contents["commits/3"] = b"v1"

    assert codes(verify(files)) == [("torn", "commits/3")]


def test_nobody_is_told_to_rebuild_what_a_pipeline_uses() -> None:
    files = sound()
    files.contents["commits/3"] = b"v1"
    found = verify(files)

    assert [one.remedy for one in with_running(found, True).problems] == [STOP_FIRST]
    assert with_running(found, False).problems == found.problems
    unknown = with_running(found, None).problems  # on an object store nothing tells
    assert [one.remedy for one in unknown] == [
        f"{IF_IT_RUNS} {one.remedy}" for one in found.problems
    ]
