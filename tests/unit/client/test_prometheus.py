"""A producer's counters in prometheus-client's registry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, generate_latest

from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.prometheus import expose


@dataclass
class Producer:
    producer_group: str = "orders"
    counters: Counters = field(default_factory=Counters)


def value(registry: CollectorRegistry, group: str, event: str) -> float | None:
    labels = {"group": group, "event": event}
    return registry.get_sample_value("checkback_client_events_total", labels)


def test_counters_are_shown_as_they_stand() -> None:
    registry, producer = CollectorRegistry(), Producer()
    expose(producer, registry)
    producer.counters.add(ClientEvent.COMMITTED)
    producer.counters.add(ClientEvent.COMMITTED)

    assert value(registry, "orders", "committed") == 2
    assert value(registry, "orders", "sent") == 0


def test_producers_of_one_group_are_added_up_and_the_metric_is_there_once() -> None:
    registry, first, second, other = CollectorRegistry(), Producer(), Producer(), Producer("b")
    for producer in (first, second, other, first):
        expose(producer, registry)
        producer.counters.add(ClientEvent.SENT)

    assert value(registry, "orders", "sent") == 3
    assert value(registry, "b", "sent") == 1
    text = generate_latest(registry).decode()
    assert text.count("# TYPE checkback_client_events_total counter") == 1


def test_the_client_loads_neither_library_by_itself() -> None:
    program = (
        "import sys, checkback.client;"
        "sys.exit(any(name.split('.')[0] in ('prometheus_client', 'opentelemetry')"
        " for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
