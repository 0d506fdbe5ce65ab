"""A producer's counters for prometheus-client; needs `pip install 'checkback[prometheus]'`.

expose(producer)
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from checkback.client.observing.counters import ClientEvent, Counters
from checkback.metrics.table import TABLE

EVENTS: Final = next(metric for metric in TABLE if metric.of_client)


class CountingProducer(Protocol):
    """A producer of this package."""

    @property
    def producer_group(self) -> str:
        """The group it belongs to."""
        ...

    @property
    def counters(self) -> Counters:
        """What it counts."""
        ...


class _Producers(Collector):
    """All producers of one registry: Prometheus takes each metric once."""

    def __init__(self) -> None:
        self._counted: list[tuple[str, Counters]] = []

    def add(self, producer: CountingProducer) -> None:
        # The counters, not the producer: if they vanished with it, that would look like a restart.
        if not any(counters is producer.counters for _, counters in self._counted):
            self._counted.append((producer.producer_group, producer.counters))

    def collect(self) -> Iterator[Metric]:
        counts: dict[tuple[str, ClientEvent], int] = {}
        for group, counters in list(self._counted):
            for event, number in counters.snapshot().items():
                counts[group, event] = counts.get((group, event), 0) + number
        names = [label.name for label in EVENTS.labels]
        family = CounterMetricFamily(EVENTS.name, EVENTS.help, labels=names)
        for (group, event), number in counts.items():
            family.add_metric([group, event.value], number)
        yield family


_producers: Final[WeakKeyDictionary[CollectorRegistry, _Producers]] = WeakKeyDictionary()
_lock: Final = Lock()


def expose(producer: CountingProducer, registry: CollectorRegistry = REGISTRY) -> None:
    """Register a producer's counters; the counts of producers of one group are added up.

    Args:
        producer: a second call with the same producer changes nothing.
        registry: by default prometheus-client's own.
    """
    with _lock:
        known = _producers.get(registry)
        if known is None:
            known = _producers[registry] = _Producers()
            registry.register(known)
        known.add(producer)
