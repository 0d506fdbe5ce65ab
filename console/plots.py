"""Plots of series as SVG. Pure: points in, coordinates out; colours are the style sheet's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checkback.protocol.durations import duration_text

WIDTH: Final = 320
HEIGHT: Final = 72
PAD: Final = 4
UNKNOWN: Final = "\N{EN DASH}"

SECONDS: Final = "s"
AGES_S: Final = (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 18_000, 43_200, 86_400, 172_800,
    432_000,
)  # fmt: skip
"""Ages that are round in the units of durations."""

Point = tuple[int, float | None]
"""Time in milliseconds, and the value; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One line over time.

    Args:
        title: what it shows.
        latest: the newest value as text.
        unit: what the value counts.
        lines: the line's parts, as the points of SVG polylines; a gap begins a new part.
        top: the largest value of the axis, as text.
        span: how much time it shows, as text.
    """

    title: str
    latest: str
    unit: str
    lines: tuple[str, ...]
    top: str
    span: str

    @property
    def latest_unit(self) -> str:
        """The unit of the newest value; none where the value is not known."""
        return "" if self.latest == UNKNOWN else self.unit

    @property
    def says(self) -> str:
        """The plot in words, for those who do not see it."""
        if not self.lines:
            return f"{self.title}: no values yet"
        return (
            f"{self.title}: now {self.latest} {self.latest_unit}, "
            f"on a scale up to {self.top} {self.unit}, over {self.span}"
        )


def plot(title: str, unit: str, points: Sequence[Point], span: str) -> Plot:
    """Return the plot of a series.

    Args:
        title: what it shows.
        unit: what the values count; SECONDS for ages, which are written as durations.
        points: in the order of time.
        span: how much time they cover, as text.
    """
    known = [value for _, value in points if value is not None]
    most = max(known, default=0.0)
    is_age = unit == SECONDS
    top = next((one for one in AGES_S if one >= most), nice_top(most)) if is_age else nice_top(most)
    text = _age_text if is_age else number_text
    latest = text(known[-1]) if points and points[-1][1] is not None else UNKNOWN
    return Plot(title, latest, "" if is_age else unit, tuple(_lines(points, top)), text(top), span)


def _age_text(seconds: float) -> str:
    return duration_text(round(seconds) * 1_000)


def nice_top(value: float) -> float:
    """Return a round number that is not less: 1, 2 or 5 times a power of ten."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= value * 0.9999)


def number_text(value: float) -> str:
    """Return a number as people read it: three digits, with k, M or G."""
    for limit, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if sign == "k" else limit)
            return f"{scaled:.3g}{sign}" if abs(scaled) < 1_000 else f"{scaled:.0f}{sign}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.2g}"


def _lines(points: Sequence[Point], top: float) -> list[str]:
    if len(points) < 2:
        return []
    first, last = points[0][0], points[-1][0]
    parts: list[list[str]] = [[]]
    for time_ms, value in points:
        if value is None or not math.isfinite(value):
            parts.append([])
            continue
        x = (time_ms - first) / max(1, last - first) * WIDTH
        y = HEIGHT - PAD - min(1.0, max(0.0, value / top)) * (HEIGHT - 2 * PAD)
        parts[-1].append(f"{x:.1f},{y:.1f}")
    return [" ".join(part) for part in parts if len(part) > 1]
