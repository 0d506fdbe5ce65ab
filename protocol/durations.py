"""Durations as people write them: ``90s``, ``10m``, ``1h30m``, ``2d``.

Neither pandas nor pydantic parses these: pandas takes a bare number for nanoseconds, pydantic wants
ISO 8601.
"""

from __future__ import annotations

import re
from typing import Final

from checkback.protocol.errors import UsageError

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"(\d{1,18})(ms|[smhd])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds.

    Raises:
        UsageError: the text is not a duration.
    """
    if _WHOLE.fullmatch(text) is None:
        raise UsageError(
            f"{text!r} is not a duration.",
            remedy="Write a number with its unit: 500ms, 90s, 10m, 1h30m, 2d.",
        )
    return sum(int(number) * UNITS_MS[unit] for number, unit in _PART.findall(text))


def duration_text(ms: int) -> str:
    """Return a duration in its two largest units, for people; one below a second, in ms."""
    if abs(ms) < UNITS_MS["s"]:
        return f"{ms}ms" if ms else "0s"
    left = abs(ms) // 1_000
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, UNITS_MS[unit] // 1_000)
        if number or (unit == "s" and not parts):
            parts.append(f"{number}{unit}")
    return ("-" if ms <= -1_000 else "") + "".join(parts[:2])
