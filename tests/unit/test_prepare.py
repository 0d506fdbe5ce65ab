"""What set-up says while it runs: each step, and how far pip is."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from tools import prepare


def test_every_step_is_said_with_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("find_java", "_require_room", "_make_environment", "_pip"):
        monkeypatch.setattr(prepare, name, lambda *_: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))

    assert prepare.main() == 0

    said = capsys.readouterr().out.splitlines()
    steps = [line.partition(":")[0] for line in said]
    assert steps == [f"set-up {number}/{len(said)}" for number in range(1, len(said) + 1)]


def test_a_log_says_now_and_then_how_far_pip_is(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["Collecting a\n", "  Downloading a\n"] * 120 + ["Installing collected packages: a\n"]

    assert list(prepare._read(lines)) == lines

    assert capsys.readouterr().out.splitlines() == [
        "set-up: 50 packages collected",
        "set-up: 100 packages collected",
        "set-up: 120 packages collected, installs them",
    ]
