"""What ``checkback run`` writes to a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from checkback.commands.run import REPLACE_LINE, TerminalLines
from checkback.streaming.progress import Progress


def facts(**changes: Any) -> dict[str, Any]:
    return {**asdict(Progress().line(0, None)), **changes}


def test_a_line_without_news_takes_the_place_of_the_one_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = TerminalLines(lambda: 80)

    for change in ({}, {"batch_id": 1}, {"counts": {"finals": 3}}, {"batch_id": 3}):
        lines.emit("progress", facts(**change))

    first, second, third, fourth, _ = capsys.readouterr().out.split("\n")
    assert second.startswith(REPLACE_LINE)
    assert not any(one.startswith(REPLACE_LINE) for one in (first, third, fourth))
    assert "finals 3" in third
