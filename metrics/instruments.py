"""The metrics of the table as prometheus-client's collectors, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.registry import Collector

from checkback.metrics.table import PIPELINE, Kind, Metric

COUNTED: Final = "checkback_finish_message_latency"
"""Its values come as counts by bucket: one call per message would cost more than the message."""


class CountedHistogram(Collector):
    """A histogram that takes counts by bucket instead of single values."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._counts = [0] * (len(metric.buckets) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def add(self, counts: Sequence[int], total: float) -> None:
        """Add values.

        Args:
            counts: how many fell into each bucket; the last number is for those above all bounds.
        """
        with self._lock:
            self._counts = [old + new for old, new in zip(self._counts, counts, strict=True)]
            self._sum += total

    def collect(self) -> Iterator[MetricFamily]:
        """Return the histogram as Prometheus reads it."""
        with self._lock:
            reached, total = list(accumulate(self._counts)), self._sum
        bounds = [*(str(bound) for bound in self._metric.buckets), "+Inf"]
        yield HistogramMetricFamily(
            self._metric.name,
            self._metric.help,
            buckets=list(zip(bounds, reached, strict=True)),
            sum_value=total,
        )


class Instruments:
    """What is measured, by the names of the table; may be used from any thread."""

    def __init__(self, metrics: Iterable[Metric] = PIPELINE) -> None:
        # Else each counter has a second series, of when it was made, which is in no table.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._known: dict[str, Any] = {metric.name: self._made(metric) for metric in metrics}

    def add(self, name: str, number: float = 1, **labels: str) -> None:
        """Count up."""
        self._of(name, labels).inc(number)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._of(name, labels).set(value)

    def clear(self, name: str) -> None:
        """Forget the series of a gauge with labels."""
        self._known[name].clear()

    def watch(self, name: str, look: Callable[[], float]) -> None:
        """Have a gauge look its value up whenever somebody asks."""
        self._known[name].set_function(look)

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        self._known[name].observe(value)

    def add_counts(self, name: str, counts: Sequence[int], total: float) -> None:
        """Add counts by bucket to a histogram that takes them."""
        self._known[name].add(counts, total)

    def _of(self, name: str, labels: dict[str, str]) -> Any:
        known = self._known[name]
        return known.labels(**labels) if labels else known

    def _made(self, metric: Metric) -> Any:
        if metric.name == COUNTED:
            counted = CountedHistogram(metric)
            self.registry.register(counted)
            return counted
        names = [label.name for label in metric.labels]
        if metric.kind is Kind.HISTOGRAM:
            return Histogram(
                metric.name, metric.help, names, buckets=metric.buckets, registry=self.registry
            )
        kind = Counter if metric.kind is Kind.COUNTER else Gauge
        made = kind(metric.name, metric.help, names, registry=self.registry)
        if len(metric.labels) == 1:
            for value in metric.labels[0].values:
                made.labels(value)
        return made
