"""Durations as people write them."""

from __future__ import annotations

import pytest

from checkback.protocol.durations import duration_ms, duration_text
from checkback.protocol.errors import UsageError


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("90s", 90_000), ("10m", 600_000), ("1h30m", 5_400_000), ("2d", 172_800_000)],
)
def test_a_number_with_its_unit_is_a_duration(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "10", "m", "10 m", "1.5h", "-1h", "10M", "10m!", "m10", "9" * 5_000 + "d"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        duration_ms(text)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (999, "999ms"), (61_000, "1m1s"), (3_600_000, "1h"), (90_061_000, "1d1h"),
     (-2_000, "-2s"), (86_405_000, "1d5s")],
)  # fmt: skip
def test_a_duration_is_told_in_its_two_largest_units(ms: int, text: str) -> None:
    assert duration_text(ms) == text
