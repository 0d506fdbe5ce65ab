"""What ``checkback run`` and ``checkback demo`` write, and the exit codes of a demo."""

from __future__ import annotations

import errno
import io
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkback.commands import demo
from checkback.commands.run import REPLACE_LINE, TerminalLines
from checkback.commands.shared.app import execute
from checkback.commands.shared.output import CommandOutput, losing_lines
from checkback.demo.audit import AuditFinding, Evidence, FindingKind
from checkback.demo.report import DemoReport, fate_lines
from checkback.demo.run import Demonstration
from checkback.protocol.errors import OperationalError
from checkback.streaming.reports.progress import Progress, ProgressLine


def line(**changes: Any) -> ProgressLine:
    return replace(Progress().line(0, None), **changes)


def test_a_line_without_news_takes_the_place_of_the_one_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = TerminalLines(lambda: 80)

    for change in ({}, {"batch_id": 1}, {"counts": {"finals": 3}}, {"batch_id": 3}):
        lines.emit("progress", line(**change))

    first, second, third, fourth, _ = capsys.readouterr().out.split("\n")
    assert second.startswith(REPLACE_LINE)
    assert not any(one.startswith(REPLACE_LINE) for one in (first, third, fourth))
    assert "finals 3" in third


def test_a_warning_that_lasts_is_written_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    """`nobody answers for` filled the terminal, two lines every five seconds."""
    lines = TerminalLines(lambda: 80)
    alone = {"groups_without_members": ["a-group-with-a-name-that-takes-a-line-of-its-own"] * 2}

    written = []
    for change in ({}, alone, alone, alone, {}):
        lines.emit("progress", line(**change))
        written.append(capsys.readouterr().out)

    erased = [text.count(REPLACE_LINE) for text in written]
    shown = [text.count("\n") for text in written]
    assert erased == [0, 0, 0, shown[2], 0]
    assert shown[1] == shown[2] == shown[3] > 1
    assert "nobody answers for" in written[3]


class FullDisk(io.StringIO):
    """Standard output into a file for which there is no space, until there is."""

    is_full = True

    def flush(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_under_the_output_costs_lines_and_not_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_json(event: str, told: Any) -> None:
        CommandOutput(as_json=True).line({"event": event, **asdict(told)}, "")

    file = FullDisk()
    monkeypatch.setattr("sys.stdout", file)
    for emit in (losing_lines(as_json), losing_lines(TerminalLines(lambda: 80).emit)):
        file.is_full = True
        emit("progress", line(batch_id=1))
        file.is_full = False
        emit("progress", line(batch_id=2))

    assert '"batch_id": 2' in file.getvalue()
    assert "batch 2" in file.getvalue()


def test_whoever_stops_reading_the_output_ends_the_job() -> None:
    def closed(_: str, __: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        losing_lines(closed)("progress", {})


GREEN = DemoReport(1, 40.0, 4, fate_lines([], Evidence()), [], [])
MISSING = AuditFinding(FindingKind.MISSING, "order-0007", "committed locally, not on orders.retail")


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ensure_jars", lambda _: [])
    started = SimpleNamespace(bootstrap_servers="127.0.0.1:1")
    monkeypatch.setattr(demo, "EmbeddedBroker", lambda *_, **__: nullcontext(started))


def run_demo(monkeypatch: pytest.MonkeyPatch, report: DemoReport, *arguments: str) -> int:
    # A real run takes a minute and finds nothing wrong, so this test fakes a finding.
    monkeypatch.setattr(Demonstration, "run", lambda _: report)
    return execute(demo.command, ["--keep", *arguments])


def test_a_finding_is_shown_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = replace(GREEN, findings=[MISSING])

    assert run_demo(monkeypatch, report, "--data-dir", str(tmp_path / "new")) == 1
    shown = capsys.readouterr().out
    assert max(len(line) for line in shown.splitlines() if str(tmp_path) not in line) <= 80
    assert "missing: order-0007: committed locally, not on orders.retail" in shown
    assert "Audit passed" not in shown


def test_a_folder_with_something_in_it_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis").touch()

    assert run_demo(monkeypatch, GREEN, "--data-dir", str(tmp_path)) == 2
    assert "not empty" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis"]


def test_after_a_failure_it_says_where_the_logs_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Demonstration) -> DemoReport:
        raise OperationalError("The pipeline ended.")

    monkeypatch.setattr(Demonstration, "run", fail)
    folder = tmp_path / "new"
    code = execute(demo.command, ["--data-dir", str(folder)])

    assert code == 3
    said = capsys.readouterr().err
    assert str(folder) in said
    assert "The pipeline ended." in said


def test_without_java_it_says_so_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert run_demo(monkeypatch, GREEN, "--data-dir", str(tmp_path / "new")) == 3
    assert "contains no Java" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
