"""What ``checkback run`` writes, to a terminal or elsewhere."""

from __future__ import annotations

import errno
import io
from dataclasses import asdict, replace
from typing import Any

import pytest

from checkback.commands.run import REPLACE_LINE, TerminalLines, command, losing_lines
from checkback.commands.shared.app import execute
from checkback.commands.shared.errors import EXIT_OK
from checkback.commands.shared.output import CommandOutput
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


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_told_at_once_that_the_start_takes_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
) -> None:
    """For ten to thirty seconds nothing was said."""
    monkeypatch.setattr("checkback.commands.run.find_java", lambda: None)
    monkeypatch.setattr("checkback.commands.run.pipeline_jars", lambda _: [])
    monkeypatch.setattr("checkback.streaming.job.run.Job.run", lambda _: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)

    assert execute(command, ["--bootstrap-servers", "b:1", "--checkpoint", "c"]) == EXIT_OK

    assert ("starting Spark" in capsys.readouterr().out) is is_terminal


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
