"""A pipeline's lock on its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkback.checkpoints.own_files.running import is_running, told_as_running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkback").mkdir()
    return tmp_path


def test_a_pipeline_is_told_as_running_until_it_ends(folder: Path) -> None:
    assert is_running(folder) is False
    with told_as_running(folder):
        assert is_running(folder) is True
        with told_as_running(folder):  # a younger one starts before the older one has ended
            pass
        assert is_running(folder) is True
    assert is_running(folder) is False


def test_elsewhere_nobody_can_tell() -> None:
    assert is_running(None) is None
    with told_as_running(None):
        pass


def test_a_folder_that_can_t_be_written_stops_no_pipeline(tmp_path: Path) -> None:
    with told_as_running(tmp_path / "missing"):
        assert is_running(tmp_path / "missing") is False
