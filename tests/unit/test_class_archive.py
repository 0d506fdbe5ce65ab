"""Which archive of classes the options of a driver's JVM and of a broker's name."""

from __future__ import annotations

import os
from collections.abc import Callable
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


@pytest.fixture
def kept(jars: Path, tmp_path: Path) -> Path:
    """The archive of a driver."""
    found = DRIVER.keep(dumped(tmp_path, 7))
    assert found.parent == jars
    return found


def test_without_an_archive_the_options_stay_as_they_are() -> None:
    assert DRIVER.options() == []
    assert with_archive("-Xss4m") == "-Xss4m"


def test_an_archive_is_mapped_beside_the_options_of_the_user(kept: Path) -> None:
    assert with_archive("-Xss4m").startswith(f'-Xss4m "-XX:SharedArchiveFile={kept}" ')


def test_a_newer_archive_takes_the_place_of_the_older(kept: Path, tmp_path: Path) -> None:
    newer = DRIVER.keep(dumped(tmp_path, 9))

    assert list(kept.parent.iterdir()) == [newer]
    assert str(newer) in with_archive("")


def unreadable(kept: Path) -> None:
    kept.unlink()
    kept.symlink_to(kept.with_name("absent"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": lambda kept: kept.write_bytes(bytes(6)),
    "altered": lambda kept: kept.write_bytes(bytes(6) + b"x"),
    "unreadable": unreadable,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_an_archive_that_is_damaged_is_not_mapped(kept: Path, how: str) -> None:
    DAMAGES[how](kept)

    assert DRIVER.options() == []


@pytest.mark.usefixtures("kept")
def test_an_archive_of_another_user_is_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars_folder, "trusted_owners", lambda: {os.geteuid() + 1})

    assert DRIVER.options() == []


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("own", ["-XX:SharedArchiveFile=a.jsa", "-XX:ArchiveClassesAtExit=b.jsa"])
def test_an_archive_that_the_user_names_is_his(own: str) -> None:
    assert with_archive(own) == own


def test_the_jvm_of_a_quick_run_maps_the_archive_too(kept: Path) -> None:
    """Its options speak of archives, and name none."""
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
