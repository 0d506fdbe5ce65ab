"""``checkback jars fetch`` fetches what its options name, and says where everything is."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from checkback.commands.jars import command
from checkback.commands.shared.app import execute
from checkback.deploy.jars import USUAL_CONFS, ensure_jars, jar_paths, read_lock
from checkback.streaming.spark.java_classes import java_sources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the usual jars, and with an empty file for each other jar of the lock."""
    for conf in USUAL_CONFS:
        (tmp_path / conf).symlink_to(ensure_jars(conf)[0].parent)
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))
    for conf in ("delta", "s3"):
        (tmp_path / conf).mkdir()
        for name in read_lock()[conf]:
            (tmp_path / conf / name).touch()
    return tmp_path


def test_every_jar_is_named_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(command, ["fetch", "--output", "json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(folder)
    assert told["jars"] == {
        conf: [str(path) for path in jar_paths(conf)] for conf in ("spark", "kafka")
    }
    with zipfile.ZipFile(told["classes"]) as classes:
        compiled = {name.partition("/")[2] for name in classes.namelist()}
    assert {name.replace(".java", ".class") for name in java_sources()} <= compiled


@pytest.mark.parametrize("conf", ["delta", "s3"])
def test_jars_of_an_option_are_verified_as_the_usual_ones_are(
    conf: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(command, ["fetch", f"--{conf}"]) == 3

    assert f"The jar {folder / conf}" in capsys.readouterr().err
