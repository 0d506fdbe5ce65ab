"""What the pipeline is doing now, from its checkpoint and the running job's metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from checkback.checkpoints.running import announced_url, is_pipeline_running
from checkback.console.pending_view import PendingView
from checkback.operations.diagnosis import Result, judge_running
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckbackError, PrerequisiteError

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
EVERY_ADDRESS: Final = ("", "0.0.0.0", "[::]")  # noqa: S104 - nothing is bound to them here
"""A pipeline that listens there can be asked on loopback."""
TIMEOUT_S: Final = 2.0
ANSWER_BYTES_MAX: Final = 8_000_000

Samples = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""By name, by labels: the value."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A source that did not answer.

    Args:
        what: which source.
        says: why.
        remedy: what to do.
    """

    what: str
    says: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at one moment; None where no source says it.

    Args:
        time_ms: when it was read.
        application_id: name of the deployment.
        pending: halves without a verdict.
        oldest_age_ms: age of the oldest of them.
        totals: by event, how often it happened since the job started; none without its metrics.
        refused: refused records by reason.
        batch_s: seconds that batches took, and how many there were.
        lag: records that the pipeline has not read.
        missing: sources that did not answer.
    """

    time_ms: int
    application_id: str
    pending: int | None = None
    oldest_age_ms: int | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)
    batch_s: tuple[float, float] | None = None
    lag: float | None = None
    missing: tuple[Missing, ...] = ()


@dataclass(slots=True)
class SnapshotReader:
    """Reads snapshots.

    Args:
        settings: the pipeline's settings.
        pending: what is pending by the checkpoint.
        metrics_url: the pipeline's metrics endpoint, "" for the one that it announces.
        now_ms: a clock.
    """

    settings: Settings
    pending: PendingView
    metrics_url: str
    now_ms: Callable[[], int]

    def read(self) -> Snapshot:
        """Return what is known now; a source that does not answer is listed, not raised."""
        now, missing = self.now_ms(), []
        known: dict[str, Any] = {}
        runs = is_pipeline_running(self.settings) if self.settings.checkpoint else None
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
        name = self.settings.application_id
        return Snapshot(now, name, missing=tuple(missing), **known)

    def _from_checkpoint(self, now_ms: int) -> dict[str, Any]:
        table = self.pending.refresh().table
        oldest_ms = int(table.rows["store_time_ms"][0]) if len(table.rows) else None
        age_ms = None if oldest_ms is None else max(0, now_ms - oldest_ms)
        return {"pending": len(table.rows), "oldest_age_ms": age_ms}

    def _from_metrics(self, _: int) -> dict[str, Any]:
        url = self.metrics_url or announced_metrics(self.settings)
        if not url:
            raise CheckbackError(
                "The pipeline's endpoint is not known, so what it has counted is missing.",
                remedy="Give --metrics-url http://HOST:PORT/metrics.",
            )
        return figures_of(read_samples(url))


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


def figures_of(samples: MetricSamples) -> dict[str, Any]:
    """Return the fields of a snapshot that the metrics hold."""
    found: dict[str, Any] = {}
    pending, age_s = samples.value(PENDING), samples.value(OLDEST)
    if pending is not None:
        found["pending"] = int(pending)
        found["oldest_age_ms"] = int(age_s * 1_000) if pending and age_s is not None else None
    totals = {event: samples.value(name) for event, name in TOTALS.items()}
    totals["prepared"] = samples.by_label(READ, "kind").get(HALVES)
    found["totals"] = {event: value for event, value in totals.items() if value is not None}
    found["refused"] = samples.by_label(TOTALS["refused"], "reason")
    found["batch_s"] = samples.mean(BATCH)
    found["lag"] = samples.value(LAG)
    return found


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """One reading of the metrics endpoint, which answers in Prometheus' text format.

    Args:
        samples: every value that it had; a job that has not read its checkpoint yet serves NaN for
            what the state holds, and NaN is no value.
    """

    samples: Samples = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MetricSamples:
        """Return the samples in a text of Prometheus' format.

        Raises:
            ValueError: it is something else.
        """
        samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                if math.isnan(one.value):
                    continue
                labels = tuple(sorted(one.labels.items()))
                samples.setdefault(one.name, {})[labels] = one.value
        return cls(samples)

    def value(self, name: str) -> float | None:
        """Return the sum of a metric over its labels, None if it is not there."""
        found = self.samples.get(name)
        return None if not found else sum(found.values())

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the values of a metric by one of its labels."""
        values: dict[str, float] = {}
        for labels, value in self.samples.get(name, {}).items():
            key = dict(labels).get(label, "")
            values[key] = values.get(key, 0.0) + value
        return values

    def mean(self, name: str) -> tuple[float, float] | None:
        """Return sum and count of a histogram or summary, None if it is not there."""
        total, count = self.value(f"{name}_sum"), self.value(f"{name}_count")
        return None if total is None or count is None else (total, count)


def read_samples(url: str) -> MetricSamples:
    """Read the endpoint.

    Raises:
        PrerequisiteError: nothing answers there, or something else than metrics.
    """
    try:
        return MetricSamples.parse(_answer(url))
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
