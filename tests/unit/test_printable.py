"""What strangers write commands no terminal, and begins no line of a log."""

from __future__ import annotations

import pytest

from checkback.protocol.printable import printable


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
