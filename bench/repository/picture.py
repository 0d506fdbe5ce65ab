"""Draws how a result's kinds of runs compare, and their batch times, with matplotlib."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from checkback.protocol.errors import PrerequisiteError, UsageError

FORMATS: Final = (".svg", ".png")
SIZE_INCHES: Final = (9.0, 7.0)
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Told apart by people who do not see red and green (Okabe and Ito)."""
REFERENCE: Final = "job"
WORDS: Final = {
    "job": "Checkback",
    "stateless": "Spark's Kafka sink, no state",
    "ledger": "Checkback with the ledger",
    "page_size_1": "Checkback, one offset per page",
    "access_control": "Checkback with access control",
    "kafka_streams": "Kafka Streams",
}
"""By the kind of a run."""
SCRAP: Final = 0.1
"""A batch with less than this share of the largest one's records is left out."""


def require_drawing(file: Path) -> None:
    """Check before the measuring that the picture can be drawn afterwards.

    Raises:
        UsageError: the file's name has an unknown ending.
        PrerequisiteError: matplotlib is not installed.
    """
    if file.suffix not in FORMATS:
        raise UsageError(
            f"--picture is {str(file)!r}.",
            remedy=f"Choose a name that ends in {' or '.join(FORMATS)}.",
        )
    try:
        import matplotlib.figure  # noqa: F401 - checks that it is installed
    except ImportError as error:
        raise PrerequisiteError(
            "matplotlib is not installed.", remedy="Run make setup, or pip install matplotlib."
        ) from error


def draw(result: Mapping[str, Any], file: Path) -> None:
    """Draw a result's runs into a file, SVG or PNG according to its name.

    The upper part compares the kinds of runs: each kind's median rate as a share of the job's, with
    the least and the greatest. The lower part shows the batches, one line per run.

    Args:
        result: the bench's result document.
        file: the picture.
    """
    # Without pyplot, which would look for a screen.
    from matplotlib.figure import Figure

    runs = [run for run in result["runs"] if _full_batches(run)]
    kinds = list(dict.fromkeys(run["kind"] for run in runs))
    colours = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(kinds)}
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    ratios, times = figure.subplots(2, 1, height_ratios=(len(kinds) + 1, 6))
    _draw_ratios(ratios, runs, colours)
    _draw_batches(times, runs, colours)
    figure.suptitle(f"checkback bench {result['command']}")
    figure.savefig(file)


def rate_shares(runs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """Return by kind the least, median and greatest rate, as shares of the median of REFERENCE.

    Where no run is of that kind, shares are of the first kind's.

    Args:
        runs: those of a result document, each with full batches.
    """
    rates: dict[str, list[float]] = {}
    for run in runs:
        rates.setdefault(run["kind"], []).append(_rate(run))
    whole = statistics.median(rates.get(REFERENCE) or next(iter(rates.values())))
    return {
        kind: (min(found) / whole, statistics.median(found) / whole, max(found) / whole)
        for kind, found in rates.items()
    }


def _rate(run: Mapping[str, Any]) -> float:
    """Return what the run says of itself; otherwise the median rate of its batches, per second."""
    stated = run.get("transactions_per_s")
    if stated:
        return float(stated)
    full = _full_batches(run)
    return float(statistics.median(one["rows"] / max(1, one["took_ms"]) * 1_000 for one in full))


def _full_batches(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Leave out batches that read next to nothing: they show how a run ends, not how it runs."""
    batches = run["batches"]
    least = SCRAP * max((one["rows"] for one in batches), default=0)
    return [one for one in batches if one["rows"] > least]


def _draw_ratios(axes: Any, runs: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> None:
    shares = rate_shares(runs)
    for kind, (least, middle, most) in shares.items():
        spread = ((middle - least,), (most - middle,))
        name = WORDS.get(kind, kind)
        axes.barh(name, middle, color=colours[kind], xerr=spread, capsize=4, height=0.6)
        axes.text(most + 0.02, name, f"{middle:.2f}", va="center")
    axes.set_xlim(0, 1.12 * max(most for _, _, most in shares.values()))
    axes.invert_yaxis()
    axes.set_xlabel(f"transactions per second, {WORDS[REFERENCE]} = 1; median, least and greatest")


def _draw_batches(axes: Any, runs: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> None:
    named = set()
    for run in runs:
        kind, batches = run["kind"], _full_batches(run)
        start_ms = batches[0]["started_ms"]
        ends_s = [(one["started_ms"] + one["took_ms"] - start_ms) / 1_000 for one in batches]
        times_s = [one["took_ms"] / 1_000 for one in batches]
        label = None if kind in named else WORDS.get(kind, kind)
        named.add(kind)
        axes.plot(ends_s, times_s, marker=".", color=colours[kind], label=label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("batch, seconds")
    axes.set_xlabel("seconds since the run's first batch began")
    axes.legend(fontsize="small")
