"""The classes that decode are made once, and kept beside Spark's jars."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback.streaming import jars_folder
from checkback.streaming.jars_folder import sha256
from checkback.streaming.java_classes import DECODING, decoding_jar


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))
    return tmp_path


def test_the_next_start_takes_the_jar_that_the_first_one_made(jvm: Any, jars: Path) -> None:
    made = decoding_jar(jvm)
    made_at_ns = made.stat().st_mtime_ns

    assert made.parent == jars
    assert decoding_jar(jvm) == made
    assert made.stat().st_mtime_ns == made_at_ns
    with zipfile.ZipFile(made) as archive:
        assert {f"checkback/{name}.class" for name in DECODING} <= set(archive.namelist())


def test_a_jar_that_is_torn_is_made_again(jvm: Any, jars: Path) -> None:
    torn = decoding_jar(jvm)
    torn.write_bytes(torn.read_bytes()[:1_000])

    made = decoding_jar(jvm)

    assert made.name.endswith(f"-{sha256(made)}.jar")
    assert zipfile.is_zipfile(made)


def test_a_start_that_may_not_write_there_makes_them_for_itself(
    jvm: Any, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_JARS", str(jars / "absent"))

    made = decoding_jar(jvm)

    assert zipfile.is_zipfile(made)
    assert not (jars / "absent").exists()


def test_a_jar_that_can_t_be_read_ends_no_start(jvm: Any, jars: Path) -> None:
    kept = decoding_jar(jvm)
    kept.unlink()
    kept.mkdir()  # nor can root read it
    kept.with_name(f"{kept.stem}-2.jar").symlink_to(jars / "absent")

    assert zipfile.is_zipfile(decoding_jar(jvm))


def test_a_jar_of_another_user_is_not_run(
    jvm: Any, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = decoding_jar(jvm)
    kept.write_bytes(b"of another user, who named it rightly")
    named = f"{kept.stem.rpartition('-')[0]}-{sha256(kept)}.jar"
    of_another = kept.rename(kept.with_name(named))
    monkeypatch.setattr(jars_folder, "trusted_owners", lambda: {os.geteuid() + 1})

    assert decoding_jar(jvm) != of_another


def test_a_full_disk_keeps_no_piece_of_a_jar(
    jvm: Any, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)

    assert zipfile.is_zipfile(decoding_jar(jvm))
    assert list(jars.iterdir()) == []


def test_processes_of_the_same_number_write_two_drafts(
    jvm: Any, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[Path] = []
    monkeypatch.setattr(Path, "replace", lambda draft, _: drafts.append(draft))

    decoding_jar(jvm)
    decoding_jar(jvm)

    assert {draft.exists() for draft in drafts} == {True}
    assert len({draft.suffix for draft in drafts}) == 2
