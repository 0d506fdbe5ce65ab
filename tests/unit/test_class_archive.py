"""Which archive of classes the options of a driver's JVM and of a broker's name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tools import class_archives

from checkback.deploy.broker import EmbeddedBroker
from checkback.streaming.spark import jars as jars_folder
from checkback.streaming.spark.class_archive import (
    BROKER,
    DRIVER,
    DUMP_OPTION,
    JAVA_OPTIONS,
    with_archive,
)
from checkback.testing.pipeline_process import QUICK_JVM
from checkback.testing.topics import Topics


@pytest.fixture(autouse=True)
def jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "ja rs"
    folder.mkdir()
    monkeypatch.setenv("CHECKBACK_JARS", str(folder))
    return folder


def dumped(folder: Path, size_bytes: int) -> Path:
    path = folder / "dumped"
    path.write_bytes(bytes(size_bytes))
    return path


def test_without_an_archive_the_options_stay_as_they_are() -> None:
    assert DRIVER.options() == []
    assert with_archive("-Xss4m") == "-Xss4m"


def test_an_archive_is_mapped_beside_the_options_of_the_user(jars: Path, tmp_path: Path) -> None:
    kept = DRIVER.keep(dumped(tmp_path, 7))

    assert kept.parent == jars
    assert with_archive("-Xss4m").startswith(f'-Xss4m "-XX:SharedArchiveFile={kept}" ')


def test_a_newer_archive_takes_the_place_of_the_older(jars: Path, tmp_path: Path) -> None:
    DRIVER.keep(dumped(tmp_path, 7))
    kept = DRIVER.keep(dumped(tmp_path, 9))

    assert list(jars.iterdir()) == [kept]
    assert str(kept) in with_archive("")


@pytest.mark.parametrize("damaged", [bytes(6), bytes(6) + b"x"])
def test_an_archive_that_was_cut_short_or_altered_is_not_mapped(
    tmp_path: Path, damaged: bytes
) -> None:
    kept = DRIVER.keep(dumped(tmp_path, 7))
    kept.write_bytes(damaged)

    assert DRIVER.options() == []


def test_an_archive_of_another_user_is_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DRIVER.keep(dumped(tmp_path, 7))
    monkeypatch.setattr(jars_folder, "trusted_owners", lambda: {os.geteuid() + 1})

    assert DRIVER.options() == []


def test_an_archive_that_can_t_be_read_ends_no_start(jars: Path, tmp_path: Path) -> None:
    kept = DRIVER.keep(dumped(tmp_path, 7))
    kept.unlink()
    kept.symlink_to(jars / "absent")

    assert DRIVER.options() == []


@pytest.mark.parametrize("own", ["-XX:SharedArchiveFile=a.jsa", "-XX:ArchiveClassesAtExit=b.jsa"])
def test_an_archive_that_the_user_names_is_his(tmp_path: Path, own: str) -> None:
    DRIVER.keep(dumped(tmp_path, 7))

    assert with_archive(own) == own


def test_the_jvm_of_a_quick_run_maps_the_archive_too(tmp_path: Path) -> None:
    """Its options speak of archives, and name none."""
    kept = DRIVER.keep(dumped(tmp_path, 7))

    assert "Archive" in QUICK_JVM
    assert str(kept) in with_archive(QUICK_JVM)


def test_a_broker_maps_an_archive_of_its_own(tmp_path: Path) -> None:
    DRIVER.keep(dumped(tmp_path, 9))
    kept = BROKER.keep(dumped(tmp_path, 7))

    options = EmbeddedBroker(tmp_path / "broker")._java_options([])

    assert f"-XX:SharedArchiveFile={kept}" in options
    assert DRIVER.options()[0] not in options


@pytest.mark.parametrize("own", [f"{DUMP_OPTION}b.jsa", "-XX:SharedArchiveFile=a.jsa"])
def test_a_broker_whose_options_name_an_archive_maps_no_other(tmp_path: Path, own: str) -> None:
    BROKER.keep(dumped(tmp_path, 7))

    broker = EmbeddedBroker(tmp_path / "broker", jvm_options=[own])

    assert not any("SharedArchiveFile" in one for one in broker._java_options([]))


def test_the_jvm_writes_its_archive_where_the_training_looks_for_it(tmp_path: Path) -> None:
    plain = Topics("kafka:9092", "archive-").settings(tmp_path / "checkpoint")
    settings = class_archives._dumping(plain, tmp_path / "driver.jsa")

    assert settings.spark[JAVA_OPTIONS] == f'{QUICK_JVM} "{DUMP_OPTION}{tmp_path}/driver.jsa"'
    # With a separate log the test could not see when the JVM has ended and the archive is complete.
    assert settings.log_file == "-"
