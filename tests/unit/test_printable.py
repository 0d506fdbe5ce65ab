"""Texts for people: durations, and what strangers write commands no terminal and begins no line."""

from __future__ import annotations

import pytest

from checkback.metrics.printable import printable
from checkback.protocol.durations import duration_ms, duration_text
from checkback.protocol.errors import UsageError


@pytest.mark.parametrize("text", ["", "plain", "größe", "a b", "日本　語", "\U0001f600"])
def test_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b2J", r"\x9b2J"),
        ("a\rb\x08\x7f\x00", r"a\rb\x08\x7f\x00"),
        ("one\ntwo\u2028three", r"one\ntwo\u2028three"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("\udc80", r"\udc80"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_what_is_kept_stays() -> None:
    assert printable("a\n\tb\x1b", kept="\n\t") == "a\n\tb\\x1b"


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
