"""Which partitions stand still, told from look to look."""

from __future__ import annotations

from dataclasses import asdict

from checkback.streaming.progress import Progress, line_text
from checkback.streaming.stalls import Stall, StallHistory

HALF, OP = ("half", 0), ("op", 1)


def test_what_stands_still_below_its_end_is_found_at_the_second_look() -> None:
    history = StallHistory()

    first = history.note({HALF: 5, OP: 7}, {HALF: 9, OP: 7}, 100)
    second = history.note({HALF: 5, OP: 7}, {HALF: 12, OP: 9}, 115)

    assert first == []
    assert second == [Stall("half", 0, 5, 7, 15)]


def test_what_moves_or_is_read_to_its_end_does_not_stand_still() -> None:
    history = StallHistory()

    history.note({HALF: 5, OP: 7}, {HALF: 9, OP: 8}, 100)
    assert history.note({HALF: 6, OP: 8}, {HALF: 9, OP: 8}, 115) == []
    history.note({HALF: 6, OP: 8}, {HALF: 6, OP: 8}, 120)
    assert history.note({HALF: 6, OP: 8}, {HALF: 9, OP: 8}, 130) == []


def test_a_stall_is_in_the_line_with_whom_it_is_to_be_blamed_on() -> None:
    stall = Stall("half", 0, 5, 7, 15, 42, "batch-loader")
    line = Progress().line(0, None, (), [stall])
    text = line_text("progress", asdict(line), width=200)

    assert "half-0 has stood still at offset 5 for 15s: producer 42 (batch-loader)" in text
    assert "--partition 0 --start-offset 5" in stall.remedy()
