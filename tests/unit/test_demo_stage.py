"""The demo's settings, its tally and its timeline."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from checkback.demo.report import Tally
from checkback.demo.run import console_command
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.protocol.configuration import Settings


def progress(pending: int, **counts: int) -> dict[str, Any]:
    return {"counts": counts, "pending": pending}


def test_settings_of_the_callers_environment_do_not_reach_the_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHECKBACK_BOOTSTRAP_SERVERS", "elsewhere:9092")
    monkeypatch.setenv("CHECKBACK_KAFKA_SASL_PASSWORD", "other")
    monkeypatch.setenv("CHECKBACK_JARS", "/jars")

    environment = environment_without_settings()

    assert "CHECKBACK_BOOTSTRAP_SERVERS" not in environment
    assert "CHECKBACK_KAFKA_SASL_PASSWORD" not in environment
    assert environment["CHECKBACK_JARS"] == "/jars"


def test_a_run_is_not_settled_while_a_transaction_is_pending() -> None:
    tally = Tally(3, all_sent=True)
    tally.add_progress(progress(pending=1, halves=3, finals=2))
    assert not tally.is_settled

    tally.add_progress(progress(pending=0, finals=1))
    assert tally.is_settled


@pytest.mark.parametrize(
    ("started", "on_path", "typed"),
    [
        (".venv/bin/checkback", None, ".venv/bin/checkback"),
        ("{here}/.venv/bin/checkback", None, ".venv/bin/checkback"),
        ("/opt/checkback/bin/checkback", None, "/opt/checkback/bin/checkback"),
        ("/usr/bin/checkback", "/usr/bin/checkback", "checkback"),
        ("/usr/lib/python3/pytest/__main__.py", None, "checkback"),
    ],
)
def test_a_command_to_copy_works_in_a_checkout_too(
    started: str, on_path: str | None, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There nobody has put .venv/bin on the path: `make demo` is the first thing that they type."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [started.format(here=tmp_path), "demo"])
    monkeypatch.setattr("shutil.which", lambda _: on_path)

    assert console_command(tmp_path).split()[:2] == [typed, "console"]


def test_the_configuration_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    config = tmp_path / "checkback.toml"

    write_settings(config, Settings())

    assert stat.S_IMODE(config.stat().st_mode) == 0o600
