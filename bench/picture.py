"""Batch times and rates of a result, drawn by matplotlib (extra ``bench``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checkback.protocol.errors import PrerequisiteError, UsageError

FORMATS: Final = (".svg", ".png")
SIZE_INCHES: Final = (9.0, 7.0)


def require_drawing(file: Path) -> None:
    """Refuse before anything is measured what could not be drawn afterwards.

    Raises:
        UsageError: the file's name ends in no format that is drawn.
        PrerequisiteError: matplotlib is not installed.
    """
    if file.suffix not in FORMATS:
        raise UsageError(
            f"--picture is {str(file)!r}.", remedy=f"Its name ends in {' or '.join(FORMATS)}."
        )
    try:
        import matplotlib.figure  # noqa: F401 - whether it is there
    except ImportError as error:
        raise PrerequisiteError(
            "matplotlib is not installed.", remedy="pip install 'checkback[bench]'"
        ) from error


def draw(result: Mapping[str, Any], file: Path) -> None:
    """Draw a result's runs into a file, SVG or PNG by its name.

    Args:
        result: the document of a call of the bench.
        file: the picture.
    """
    # A figure of its own, without pyplot: no screen is needed and none is looked for.
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    times, rates = figure.subplots(2, 1, sharex=True)
    for run in result["runs"]:
        batches = run["batches"]
        if not batches:
            continue
        start_ms = batches[0]["started_ms"]
        seconds = [(one["started_ms"] + one["took_ms"] - start_ms) / 1_000 for one in batches]
        name = f"{run['kind']} {run['number']}"
        times.plot(seconds, [one["took_ms"] for one in batches], marker=".", label=name)
        per_s = [one["rows"] / max(1, one["took_ms"]) * 1_000 for one in batches]
        rates.plot(seconds, per_s, marker=".", label=name)
    times.set_ylabel("batch, ms")
    rates.set_ylabel("halves and ops per second")
    rates.set_xlabel("seconds since the first batch began")
    times.legend(fontsize="small")
    figure.suptitle(f"checkback bench {result['command']}")
    figure.savefig(file)
