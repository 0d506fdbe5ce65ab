"""The version says which commit it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.programs import output_of

import checkback
from checkback.commands import version


def test_a_checkout_tells_its_commit() -> None:
    pattern = rf"checkback {re.escape(checkback.__version__)}( \([0-9a-f]{{12,}}(-dirty)?\))?"

    assert re.fullmatch(pattern, version.version_text())


def test_a_folder_that_is_no_checkout_has_none(tmp_path: Path) -> None:
    assert version.checkout_commit(tmp_path) == ""


def test_a_stamp_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / version.COMMIT_FILE).write_text("0123456789ab\n")
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)

    assert version.version_text() == f"checkback {checkback.__version__} (0123456789ab)"


def test_the_command_prints_it() -> None:
    program = "from checkback.commands import main; main()"
    for arguments in (["--version"], ["deploy", "pack", "--help"]):
        told = output_of(program, *arguments)
    assert "FOLDER" in told
