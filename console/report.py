"""One static file about an incident: what the console shows, at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from checkback import __version__
from checkback.console.access import Visitor
from checkback.console.history import RATES
from checkback.console.ledger_view import LedgerView, PendingFilter
from checkback.console.opening import Sources
from checkback.console.plots import Plot, Point, plot
from checkback.console.rendering import STATIC, rendered
from checkback.operations.record_filter import RecordFilter
from checkback.protocol.errors import CheckbackError, ConfigurationError

PENDING_ROWS: Final = 200
MINUTES: Final = 60
MINUTE_MS: Final = 60_000
PLOTTED: Final = {**RATES, "discarded": "Discarded", "refused": "Refused"}


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the report.

    Args:
        title: its heading.
        html: its content, escaped.
    """

    title: str
    html: str


@dataclass(frozen=True, slots=True)
class Report:
    """The report.

    Args:
        html: the whole file.
        missing: titles of the sections whose source did not answer.
    """

    html: str
    missing: tuple[str, ...]


def write_report(sources: Sources) -> Report:
    """Return the report; the section of a source that does not answer says so."""
    now = sources.facts.now_ms()
    snapshot = sources.snapshots.read()
    looks: Mapping[str, tuple[str, Callable[[], Mapping[str, Any]]]] = {
        "Producer groups": ("groups.html", lambda: {"groups": sources.facts.groups()}),
        f"The oldest {PENDING_ROWS} pending": ("pending_table.html", lambda: _pending(sources)),
        "Discarded": (
            "discarded.html",
            lambda: {"found": sources.facts.discarded(RecordFilter())},
        ),
        "Refused": ("refused.html", lambda: {"found": sources.facts.refused()}),
        "Lag": ("lag.html", lambda: {"positions": sources.facts.lag()}),
        "Checkpoint": (
            "checkpoint.html",
            lambda: {"checkpoint": sources.facts.checkpoint()},
        ),
        "Doctor": ("doctor.html", lambda: {"findings": sources.facts.doctor()}),
    }
    sections, missing = [], []
    shared = {"is_static": True, "visitor": Visitor(), "now_ms": now}
    # At once: brokers that are down keep each of them waiting until its timeout.
    with ThreadPoolExecutor(len(looks)) as threads:
        answers = {title: threads.submit(look) for title, (_, look) in looks.items()}
    for title, (template, _) in looks.items():
        try:
            html = rendered(f"parts/{template}", {**shared, **answers[title].result()})
        except CheckbackError as error:
            told = {"says": error.message, "remedy": error.remedy}
            html = rendered("parts/problem.html", {**shared, **told})
            missing.append(title)
        sections.append(Section(title, html))
    context = {
        **shared,
        "settings": sources.facts.settings,
        "snapshot": snapshot,
        "plots": minute_plots(sources.ledger, now),
        "sections": sections,
        "style": (STATIC / "console.css").read_text("utf-8"),
        "version": __version__,
    }
    return Report(rendered("report.html", context), tuple(missing))


def minute_plots(ledger: LedgerView | None, now_ms: int) -> list[Plot]:
    """Return how often each event happened per minute in the last hour, by the ledger."""
    if ledger is None or ledger.version < 0:
        return []
    last = now_ms // MINUTE_MS * MINUTE_MS
    minutes = [last - number * MINUTE_MS for number in range(MINUTES, -1, -1)]
    plots = []
    for event, title in PLOTTED.items():
        counted = ledger.per_minute(event, minutes[0])
        points: list[Point] = [(one, counted.get(one, 0)) for one in minutes]
        plots.append(plot(title, "/min", points, "1h"))
    return plots


def _pending(sources: Sources) -> Mapping[str, Any]:
    if sources.ledger is None:
        raise ConfigurationError(
            "ledger is not set.", remedy="Run the pipeline and this command with --ledger."
        )
    return {"found": sources.ledger.page(PendingFilter(), "age", 0, PENDING_ROWS)}
