"""Where the jars are, and how one is checked."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from checkback.streaming.spark.jars import jars_folder, sha256


def test_the_jars_are_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHECKBACK_JARS", str(tmp_path))

    assert jars_folder() == tmp_path


def test_without_that_variable_they_are_inside_the_python_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CHECKBACK_JARS", raising=False)

    assert jars_folder().is_relative_to(sys.prefix)


def test_a_checksum_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "one.jar").write_bytes(b"content")

    assert sha256(tmp_path / "one.jar") == hashlib.sha256(b"content").hexdigest()
