"""How much was written to a folder whose files come and go, and samples at an interval."""

from __future__ import annotations

import threading
from pathlib import Path

from checkback.bench.folder_watch import FolderWatch
from checkback.bench.sampler import sampling


def written(watch: FolderWatch) -> int:
    return watch.samples[-1][1]


def test_a_deleted_file_still_counts_with_its_largest_size(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path)
    (tmp_path / "grows").write_bytes(b"12345")
    watch.look()
    (tmp_path / "grows").write_bytes(b"123")
    watch.look()
    (tmp_path / "grows").unlink()
    (tmp_path / "other").write_bytes(b"12")
    watch.look()

    assert [size for _, size in watch.samples] == [5, 5, 7]


def test_checksums_and_drafts_do_not_count(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path)
    (tmp_path / ".1.crc").write_bytes(b"12345")

    watch.look()

    assert written(watch) == 0


def test_bytes_of_a_span_are_told_by_the_samples_around_it(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path, samples=[(1_000, 10), (3_000, 50), (5_000, 60)])

    assert watch.bytes_between(500, 2_999) == 10
    assert watch.bytes_between(1_000, 4_000) == 40
    assert watch.bytes_between(3_000, 9_000) == 10


def test_a_last_sample_is_taken_when_the_block_ends(tmp_path: Path) -> None:
    with FolderWatch(tmp_path / "later") as watch:
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "one").write_bytes(b"1")

    assert written(watch) == 1


def test_a_function_is_called_until_the_block_ends() -> None:
    called = threading.Event()

    with sampling(called.set, 0.001, "sampler"):
        assert called.wait(10)
    assert "sampler" not in {thread.name for thread in threading.enumerate()}
