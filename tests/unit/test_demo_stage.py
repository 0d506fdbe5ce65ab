"""The demo's settings, its tally and its timeline."""

from __future__ import annotations

import io
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checkback.demo.report import COUNT_LABELS, Tally, Timeline
from checkback.demo.run import DemoSetting, demo_settings
from checkback.deploy.settings import load_settings, toml_of

CHOSEN = demo_settings("kafka:9092", Path("/data"))


def progress(pending: int, **counts: int) -> dict[str, Any]:
    return {"counts": counts, "pending": pending}


def test_the_pipeline_reads_the_same_settings_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "checkback.toml"
    file.write_text(toml_of(CHOSEN), "utf-8")

    assert load_settings(file, {}, {}) == CHOSEN


def test_settings_of_the_callers_environment_do_not_reach_the_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_BOOTSTRAP_SERVERS", "elsewhere:9092")
    monkeypatch.setenv("CHECKBACK_KAFKA_SASL_PASSWORD", "other")
    monkeypatch.setenv("CHECKBACK_JARS", "/jars")

    environment = DemoSetting(CHOSEN, tmp_path).environment()

    assert "CHECKBACK_BOOTSTRAP_SERVERS" not in environment
    assert "CHECKBACK_KAFKA_SASL_PASSWORD" not in environment
    assert environment["CHECKBACK_JARS"] == "/jars"


def test_a_run_is_settled_when_all_was_sent_read_and_decided() -> None:
    tally = Tally(3)
    tally.add_progress(progress(pending=0, halves=3, finals=3))
    assert not tally.is_settled, "more may be sent"


def test_a_run_is_not_settled_while_a_transaction_is_pending() -> None:
    tally = Tally(3, all_sent=True)
    tally.add_progress(progress(pending=1, halves=3, finals=2))
    assert not tally.is_settled

    tally.add_progress(progress(pending=0, finals=1))
    assert tally.is_settled


def test_halves_that_the_pipeline_has_not_read_yet_are_waited_for() -> None:
    tally = Tally(3, all_sent=True)
    tally.add_progress(progress(pending=0, halves=2, finals=2))

    assert not tally.is_settled


def test_progress_is_told_only_when_something_happened() -> None:
    tally = Tally(3)

    assert tally.add_progress(progress(pending=2, halves=2)) == "half messages 2, pending 2"
    assert tally.add_progress(progress(pending=2)) == ""


def test_answers_are_told_once() -> None:
    tally = Tally(3)
    for state in ("COMMIT_MESSAGE", "UNKNOW", "COMMIT_MESSAGE"):
        tally.add_answer(state)

    assert tally.told_answers() == "answered 3 checks: 2 commit, 0 rollback, 1 unknown"
    assert tally.told_answers() == ""


def test_payments_are_told_together_and_once() -> None:
    tally = Tally(3)
    tally.add_payments(2)
    tally.add_payments(1)

    assert tally.told_payments() == "heard how 3 open payments ended"
    assert tally.told_payments() == ""


def test_the_timeline_is_plain_lines_where_there_is_no_terminal() -> None:
    written = io.StringIO()
    times = iter([100.0, 100.0, 101.26])
    timeline = Timeline(Console(file=written), clock_s=lambda: next(times))
    with timeline:
        timeline.say("pipeline", "runs")
        timeline.show_state("pending 4")
        timeline.say("order service", "killed")

    assert written.getvalue().splitlines() == [
        "   0.0 s  pipeline         runs",
        "   1.3 s  order service    killed",
    ]
    assert timeline.entries[1] == {"at_s": 1.3, "source": "order service", "text": "killed"}


@pytest.mark.parametrize(("columns", "is_terminal", "most"), [(60, True, 60), (200, None, 80)])
def test_a_long_line_is_folded_under_its_text(
    columns: int, is_terminal: bool | None, most: int
) -> None:
    written = io.StringIO()
    console = Console(
        file=written, width=columns, force_terminal=is_terminal, color_system=None, no_color=True
    )
    timeline = Timeline(console, clock_s=lambda: 0.0)
    tally = Tally(3)
    counts = dict.fromkeys(COUNT_LABELS, 123_456)
    timeline.say("retired service", tally.add_progress(progress(pending=123_456, **counts)))

    first, *further = written.getvalue().splitlines()
    assert first.startswith("   0.0 s  retired service  half messages 123456, ")
    assert further
    assert all(line[:27].isspace() and line[27] != " " for line in further)
    assert max(map(len, [first, *further])) <= most


def test_a_command_stays_one_line_that_can_be_copied(tmp_path: Path) -> None:
    stage, written = DemoSetting(CHOSEN, tmp_path / ("x y" * 40)), io.StringIO()
    timeline = Timeline(Console(file=written, width=60, color_system=None))

    timeline.show_command(stage.console_command())

    assert shlex.split(written.getvalue())[-2:] == ["--config", str(stage.config)]
    assert written.getvalue().count("\n") == 1


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

    assert DemoSetting(CHOSEN, tmp_path).console_command().split()[:2] == [typed, "console"]


def test_the_configuration_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    stage = DemoSetting(CHOSEN, tmp_path)

    stage.write_config()

    assert stat.S_IMODE(stage.config.stat().st_mode) == 0o600
