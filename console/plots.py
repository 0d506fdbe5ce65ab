"""Plots of series as SVG. Pure: points in, coordinates out; colours are the style sheet's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 320
HEIGHT: Final = 72
PAD: Final = 4
UNKNOWN: Final = "\N{EN DASH}"

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
            f"{self.title}: now {self.latest} {self.latest_unit}, at most {self.top} in {self.span}"
        )


def plot(title: str, unit: str, points: Sequence[Point], span: str) -> Plot:
    """Return the plot of a series.

    Args:
        title: what it shows.
        unit: what the values count.
        points: in the order of time.
        span: how much time they cover, as text.
    """
    known = [value for _, value in points if value is not None]
    top = nice_top(max(known, default=0.0))
    latest = number_text(known[-1]) if points and points[-1][1] is not None else UNKNOWN
    return Plot(title, latest, unit, tuple(_lines(points, top)), number_text(top), span)


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
