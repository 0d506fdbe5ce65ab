"""What strangers wrote, as text that a terminal or a log may show."""

from __future__ import annotations

import unicodedata
from typing import Final

COMMANDING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of characters that a terminal may obey rather than show: control characters,
such as the one that begins its codes, those that turn the direction of a text, ends of lines."""


def printable(text: str, kept: str = "") -> str:
    r"""Return a text in which no character commands a terminal: each is escaped, as \x1b."""
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode()
        if unicodedata.category(one) in COMMANDING and one not in kept
        else one
        for one in text
    )
