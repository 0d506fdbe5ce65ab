"""Checkback's Java classes are compiled once, and kept beside Spark's jars."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path

import pytest

from checkback.protocol.refusals import RefusedReason
from checkback.state import EventKind
from checkback.streaming.spark import jars as jars_folder
from checkback.streaming.spark import java_classes
from checkback.streaming.spark.jars import sha256
from checkback.streaming.spark.java_classes import compiled_jar
from checkback.streaming.spark.java_protocol import protocol_java

CLASS_PATH = "/spark/jars/spark-core_2.13-4.2.0.jar:/spark/jars/janino.jar"


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The class path of each compilation; a jar with one file is all that is made."""
    found: list[str] = []

    def compile_fast(_: Path, class_path: str) -> Path:
        found.append(class_path)
        jar = tmp_path / "made.jar"
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("checkback/PageKeys.class", "x" * 5_000)
        return jar

    monkeypatch.setattr(java_classes, "_compiled", compile_fast)
    return found


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    monkeypatch.setenv("CHECKBACK_JARS", str(folder))
    return folder


def jar(class_path: str = CLASS_PATH) -> Path:
    return compiled_jar(lambda: Path("java"), class_path)


def test_a_jar_is_made_once_for_each_spark(compilations: list[str], jars: Path) -> None:
    other = CLASS_PATH.replace("4.2.0", "4.3.0")

    assert jar().parent == jars
    assert jar() == jar(CLASS_PATH.replace("/spark/", "/elsewhere/"))
    assert jar(other) not in {jar(), None}
    assert compilations == [CLASS_PATH, other]


def test_other_sources_make_another_jar(
    compilations: list[str], jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = jar()
    monkeypatch.setattr(
        java_classes, "java_sources", lambda: {"PageKeys.java": "class PageKeys {}"}
    )

    assert jar() != first


def test_a_jar_that_is_torn_is_made_again(compilations: list[str], jars: Path) -> None:
    torn = jar()
    torn.write_bytes(torn.read_bytes()[:100])

    made = jar()

    assert made.name.endswith(f"-{sha256(made)}.jar")
    assert zipfile.is_zipfile(made)


def test_a_start_that_may_not_write_there_makes_one_for_itself(
    compilations: list[str], jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_JARS", str(jars / "absent"))

    assert zipfile.is_zipfile(jar())
    assert not (jars / "absent").exists()


def test_a_jar_that_can_t_be_read_ends_no_start(compilations: list[str], jars: Path) -> None:
    kept = jar()
    kept.unlink()
    kept.mkdir()  # nor can root read it
    kept.with_name(f"{kept.stem}-2.jar").symlink_to(jars / "absent")

    assert zipfile.is_zipfile(jar())


def test_a_jar_of_another_user_is_not_run(
    compilations: list[str], jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = jar()
    kept.write_bytes(b"of another user, who named it rightly")
    named = f"{kept.stem.rpartition('-')[0]}-{sha256(kept)}.jar"
    of_another = kept.rename(kept.with_name(named))
    monkeypatch.setattr(jars_folder, "trusted_owners", lambda: {os.geteuid() + 1})

    assert jar() != of_another


def test_a_full_disk_keeps_no_piece_of_a_jar(
    compilations: list[str], jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write)

    assert zipfile.is_zipfile(jar())
    assert list(jars.iterdir()) == []


def test_processes_of_the_same_number_write_two_drafts(
    compilations: list[str], jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[Path] = []
    monkeypatch.setattr(Path, "replace", lambda draft, _: drafts.append(draft))

    jar()
    jar()

    assert {draft.exists() for draft in drafts} == {True}
    assert len({draft.suffix for draft in drafts}) == 2


def test_java_has_every_refusal_and_every_kind_of_event_once() -> None:
    source = protocol_java()

    for code in (*RefusedReason, *EventKind):
        assert source.count(f" {code.name} = {int(code)};") == 1
        assert source.count(f" {code.name} = ") == 1
