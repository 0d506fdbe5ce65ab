"""What the overview shows: the pipeline's figures now and in the last hour, as plots."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import pairwise
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from checkback.checkpoints.own_files.running import announced_url, is_pipeline_running
from checkback.console.facts import KafkaFacts
from checkback.operations.doctor.judgements import Result, judge_running
from checkback.protocol.configuration import Settings
from checkback.protocol.durations import duration_text
from checkback.protocol.errors import CheckbackError, PrerequisiteError

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
        lines: the line's parts, as the points of SVG polylines; a gap begins a new part.
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
    """Return the plot of a series."""
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


TOTALS: Final[Mapping[str, str]] = {
    "committed": "checkback_commit_messages_total",
    "rolled_back": "checkback_rollback_messages_total",
    "checked": "checkback_checks_total",
    "discarded": "checkback_discarded_total",
    "refused": "checkback_refused_total",
}
"""By event: the metric that counts it."""
PENDING: Final = "checkback_half_messages"
OLDEST: Final = "checkback_oldest_pending_age_seconds"
BATCH: Final = "checkback_batch_write_seconds"
READ: Final = "checkback_records_read_total"
HALVES: Final = "halves"
LAG: Final = "checkback_lag_records"
OLDEST_UNREAD: Final = "checkback_oldest_unread_age_seconds"
LAST_BATCH: Final = "checkback_last_batch_timestamp_seconds"
EVERY_ADDRESS: Final = ("", "0.0.0.0", "[::]")  # noqa: S104 - nothing is bound to them here
"""A pipeline that listens there can be asked on loopback."""
TIMEOUT_S: Final = 2.0
ANSWER_BYTES_MAX: Final = 8_000_000

Samples = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""By name, by labels: the value."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A source that did not answer."""

    what: str
    says: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at one moment; None where no source says it.

    Args:
        totals: by event, how often it happened since the job started; none without its metrics.
        batch_s: seconds that batches took, and how many there were.
        batch_age_ms: age of the last batch, None before the first.
    """

    time_ms: int
    application_id: str
    pending: int | None = None
    oldest_age_ms: int | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)
    batch_s: tuple[float, float] | None = None
    lag: float | None = None
    oldest_unread_ms: int | None = None
    batch_age_ms: int | None = None
    missing: tuple[Missing, ...] = ()


@dataclass(slots=True)
class SnapshotReader:
    """Reads snapshots.

    Args:
        metrics_url: the pipeline's metrics endpoint, "" for the one that it announces.
    """

    facts: KafkaFacts
    metrics_url: str

    def read(self) -> Snapshot:
        """Return what is known now; a source that does not answer is listed, not raised."""
        now, missing = self.facts.now_ms(), []
        known: dict[str, Any] = {}
        settings = self.facts.settings
        runs = is_pipeline_running(settings) if settings.checkpoint else None
        finding = judge_running(runs)
        if finding is not None and finding.result is not Result.OK:
            says = f"{finding.says[0].upper()}{finding.says[1:]}."
            missing.append(Missing("pipeline", says, finding.remedy))
        sources = {"checkpoint": self._from_checkpoint, "metrics": self._from_metrics}
        for what, read in sources.items():
            if what == "metrics" and runs is False and not self.metrics_url:
                continue  # that no pipeline runs is said already
            try:
                known |= read(now)
            except CheckbackError as error:
                missing.append(Missing(what, error.message, error.remedy))
        return Snapshot(now, settings.application_id, missing=tuple(missing), **known)

    def _from_checkpoint(self, now_ms: int) -> dict[str, Any]:
        table = self.facts.pending.refresh().table
        oldest_ms = int(table.rows["store_time_ms"][0]) if len(table.rows) else None
        age_ms = None if oldest_ms is None else max(0, now_ms - oldest_ms)
        return {"pending": len(table.rows), "oldest_age_ms": age_ms}

    def _from_metrics(self, now_ms: int) -> dict[str, Any]:
        url = self.metrics_url or announced_metrics(self.facts.settings)
        if not url:
            raise CheckbackError(
                "The pipeline's endpoint is not known, so what it has counted is missing.",
                remedy="Give --metrics-url http://HOST:PORT/metrics.",
            )
        return figures_of(read_samples(url), now_ms)


def announced_metrics(settings: Settings) -> str:
    """Return where the pipeline on this machine has its metrics; "" where that is not known.

    The settings say it, or the pipeline's own announcement in its checkpoint.
    """
    if settings.metrics_port:
        host = settings.metrics_host
        url = f"http://{f'[{host}]' if ':' in host else host}:{settings.metrics_port}"
    else:
        url = announced_url(settings)
    for every in EVERY_ADDRESS:
        url = url.replace(f"//{every}:", "//127.0.0.1:")
    return url and f"{url}/metrics"


def figures_of(samples: Samples, now_ms: int) -> dict[str, Any]:
    """Return the fields of a snapshot that the metrics hold."""
    found: dict[str, Any] = {}
    pending, age_s = _value(samples, PENDING), _value(samples, OLDEST)
    if pending is not None:
        found["pending"] = int(pending)
        found["oldest_age_ms"] = int(age_s * 1_000) if pending and age_s is not None else None
    totals = {event: _value(samples, name) for event, name in TOTALS.items()}
    totals["prepared"] = _by_label(samples, READ, "kind").get(HALVES)
    found["totals"] = {event: value for event, value in totals.items() if value is not None}
    found["refused"] = _by_label(samples, TOTALS["refused"], "reason")
    total_s, batches = _value(samples, f"{BATCH}_sum"), _value(samples, f"{BATCH}_count")
    found["batch_s"] = None if total_s is None or batches is None else (total_s, batches)
    found["lag"] = _value(samples, LAG)
    ages_s = _by_label(samples, OLDEST_UNREAD, "topic").values()
    found["oldest_unread_ms"] = round(max(ages_s) * 1_000) if ages_s else None
    batch_s = _value(samples, LAST_BATCH)
    found["batch_age_ms"] = max(0, now_ms - round(batch_s * 1_000)) if batch_s else None
    return found


def parse_samples(text: str) -> Samples:
    """Return the samples in a text of Prometheus' format.

    A job that has not read its checkpoint yet serves NaN for what the state holds: no value.

    Raises:
        ValueError: it is something else.
    """
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if not math.isnan(one.value):
                samples.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = one.value
    return samples


def _value(samples: Samples, name: str) -> float | None:
    """Return the sum of a metric over its labels, None if it is not there."""
    found = samples.get(name)
    return None if not found else sum(found.values())


def _by_label(samples: Samples, name: str, label: str) -> dict[str, float]:
    """Return the values of a metric by one of its labels."""
    values: dict[str, float] = {}
    for labels, value in samples.get(name, {}).items():
        key = dict(labels).get(label, "")
        values[key] = values.get(key, 0.0) + value
    return values


def read_samples(url: str) -> Samples:
    """Read the endpoint.

    Raises:
        PrerequisiteError: nothing answers there, or something else than metrics.
    """
    try:
        return parse_samples(_answer(url))
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise PrerequisiteError(
            f"No metrics came from {url}: {why}.",
            remedy="Check that the pipeline runs, and --metrics-url.",
            url=url,
        ) from error


def _answer(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("the address has to begin with http:// or https://")
    with urlopen(Request(url), timeout=TIMEOUT_S) as answer:  # noqa: S310 - checked above
        text: str = answer.read(ANSWER_BYTES_MAX).decode()
    return text


INTERVAL_S: Final = 2.0
KEPT: Final = 1_800
DRAWN_MAX: Final = 240
"""Points of a plot, which is 320 units wide; more would only be sent."""
RATES: Final = {
    "prepared": "Half messages",
    "committed": "Committed",
    "rolled_back": "Rolled back",
    "checked": "Asked back",
}

log = logging.getLogger(__name__)


@dataclass(slots=True)
class History:
    """The latest snapshots, oldest first. One thread adds, others read."""

    _kept: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=KEPT))
    taken: int = 0

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot."""
        self._kept.append(snapshot)
        self.taken += 1

    @property
    def latest(self) -> Snapshot | None:
        """The newest, None before the first."""
        return self._kept[-1] if self._kept else None

    def plots(self) -> list[Plot]:
        """Return the overview's plots."""
        kept = every = list(self._kept)
        step = -(-len(kept) // DRAWN_MAX)
        if step > 1:
            # By their numbers, so that the same ones are drawn again when a new one has come.
            first = self.taken - len(kept)
            kept = [one for number, one in enumerate(kept[:-1], first) if not number % step]
            kept.append(every[-1])
        span = duration_text(kept[-1].time_ms - kept[0].time_ms) if kept else "0s"
        pending: list[Point] = [(one.time_ms, one.pending) for one in kept]
        oldest: list[Point] = [(one.time_ms, _seconds(one)) for one in kept]
        rates = [plot(title, "/s", rates_of(kept, event), span) for event, title in RATES.items()]
        batches = plot("Batch time", "ms", batch_times_ms(kept), span)
        return [
            plot("Pending", "", pending, span), plot("Oldest pending", SECONDS, oldest, span),
            *rates, batches,
        ]  # fmt: skip


def rates_of(kept: Sequence[Snapshot], event: str) -> list[Point]:
    """Return how often an event happened per second, between each two snapshots."""
    points: list[Point] = []
    for before, after in pairwise(kept):
        had, has = before.totals.get(event, 0.0), after.totals.get(event, 0.0)
        seconds = (after.time_ms - before.time_ms) / 1_000
        # A pipeline that was started again counts from zero.
        is_known = event in before.totals and event in after.totals and has >= had
        points.append((after.time_ms, (has - had) / seconds if is_known and seconds > 0 else None))
    return points


def batch_times_ms(kept: Sequence[Snapshot]) -> list[Point]:
    """Return how long the batches between each two snapshots took on average.

    Where no batch ended, the value before it stays.
    """
    points: list[Point] = []
    latest: float | None = None
    for before, after in pairwise(kept):
        if before.batch_s is None or after.batch_s is None:
            latest = None
        else:
            took_s, batches = (b - a for a, b in zip(before.batch_s, after.batch_s, strict=True))
            if batches > 0 and took_s >= 0:
                latest = took_s / batches * 1_000
        points.append((after.time_ms, latest))
    return points


@contextmanager
def sampling(
    reader: SnapshotReader, history: History, interval_s: float = INTERVAL_S
) -> Iterator[None]:
    """Add a snapshot to a history every interval, in a thread, until the block ends."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            try:
                history.add(reader.read())
            except Exception:
                # The pages go on with the last snapshot; the next one may succeed.
                log.exception("No snapshot could be read")
            stopping.wait(interval_s)

    thread = threading.Thread(target=run, name="sampler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(timeout=interval_s + 5)


def _seconds(one: Snapshot) -> float | None:
    if one.pending is None:
        return None
    return 0.0 if one.oldest_age_ms is None else one.oldest_age_ms / 1_000
