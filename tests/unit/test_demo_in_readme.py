"""The run that README.md shows is what `checkback demo` would print of it today."""

from __future__ import annotations

import io
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from checkback.commands.demo import _show
from checkback.commands.shared.output import CommandOutput
from checkback.demo import run
from checkback.demo.fates import Fate
from checkback.demo.report import (
    ANSWER_LABELS,
    COUNT_LABELS,
    SOURCE_WIDTH,
    DemoReport,
    FateLine,
    Timeline,
)
from checkback.demo.run import Demonstration
from checkback.protocol.durations import duration_ms
from checkback.testing.processes import Notice

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
[SHOWN] = [block for block in BLOCKS if "Audit passed" in block]
LINES, TABLE = SHOWN.split("\n\n", 1)
LINE = re.compile(rf"^ *([\d.]+) s  (.{{{SOURCE_WIDTH}}})  (.*)$")


def notices(source: str, text: str) -> Iterator[Notice]:
    """Yield what a process would have told for a line of the timeline."""
    orders = re.match(r"sends (\d+) orders(, )?", text)
    if orders:
        event = "fatal_batch" if orders[2] else "batch"
        yield Notice(source, event, {"orders": int(orders[1])})
    elif text.startswith("killed"):
        yield Notice(source, "ended", {"pid": 1, "exit_code": -signal.SIGKILL})
    elif text.startswith("answered"):
        for state, label in ANSWER_LABELS.items():
            for _ in range(figure(text, rf"(\d+) {label}")):
                yield Notice(source, "check_answered", {"answer": state})
        yield Notice("pipeline", "progress", {"counts": {}, "pending": 0})
    else:
        counts = {name: figure(text, rf"{label} (\d+)") for name, label in COUNT_LABELS.items()}
        pending = figure(text, r"pending (\d+)")
        yield Notice(source, "progress", {"counts": counts, "pending": pending})


def figure(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def test_the_lines_are_those_of_the_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    written, now_s = io.StringIO(), [0.0]
    timeline = Timeline(Console(file=written), clock_s=lambda: now_s[0])
    demo = Demonstration(cast("Any", None), [], 1, timeline)
    demo._children["order service"] = cast("Any", SimpleNamespace(pid=1))
    monkeypatch.setattr(Demonstration, "_start_service", lambda *_: None)
    monkeypatch.setattr(run, "PAUSE_BEFORE_RESTART_S", 0)

    for line in LINES.splitlines():
        told = LINE.match(line)
        assert told, line
        now_s[0] = float(told[1])
        for notice in notices(told[2].strip(), told[3]):
            demo._take(notice)

    assert written.getvalue().splitlines() == LINES.splitlines()


def test_the_table_and_the_verdict_are_those_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fates = {fate.label: fate for fate in Fate}
    rows = [re.split(r"  +", line) for line in TABLE.splitlines()]
    found = [FateLine(fates[row[0]], *map(int, row[1:])) for row in rows if row[0] in fates]
    ended = re.search(r"^(\d+) producer processes killed, (\w+)\.$", TABLE, re.MULTILINE)
    assert ended
    report = DemoReport(1, duration_ms(ended[2]) / 1_000, int(ended[1]), found, [], [])

    _show(report, CommandOutput(False), Console(highlight=False, width=80))

    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == ["", *TABLE.splitlines()]
    assert Counter(line.fate for line in found) == Counter(Fate)
    assert max(map(len, SHOWN.splitlines())) <= 80
