"""The sink over a Kafka in memory: a cluster with halves, and what a task writes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.deciding import page_outcome, plain_half
from tests.fakes.kafka import Awaits, Clock, Cluster, installed

from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.transaction.marker import Marker, MarkerStore
from checkback.sinks.process.writer_pool import WriteRequest, Writers
from checkback.sinks.report import BatchReport
from checkback.sinks.settings import SinkSettings
from checkback.state import Action

BARE = SinkSettings(Settings(native_sink=False), "query", {}, 10_000)
NAMES = BARE.topics
HALVES = 5


@contextmanager
def staged(
    awaits: Awaits | None = None, *more_topics: str, first: str = "orders"
) -> Iterator[Cluster]:
    """Install a cluster in place of the sink's Kafka; half 0 may be for another topic."""
    made = Cluster(awaits or Awaits(Clock()))
    for name in (NAMES.half, NAMES.op, NAMES.refused, NAMES.settled, "orders", *more_topics):
        made.create_topic(name, 1)
    for number in range(HALVES):
        add_half(made, b"%d" % number, f"{number}", "orders" if number else first)
    with installed(made):
        yield made


def add_half(cluster: Cluster, body: bytes, transaction_id: str, real_topic: str) -> None:
    headers = plain_half(transaction_id, real_topic)
    cluster.write(NAMES.half, 0, None, body, headers)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with staged() as made:
        yield made


def request(settings: SinkSettings, batch: int, *numbers: int) -> WriteRequest:
    """Ask for a batch that commits the halves with these numbers."""
    decided = page_outcome(0, *((Action.COMMIT, number, 0, number) for number in numbers))
    return WriteRequest(settings, 0, batch, [decided.pack()])


def write(settings: SinkSettings, batch: int, *numbers: int) -> BatchReport:
    """Write a batch that commits the halves with these numbers, like a task in a new process."""
    return Writers().write(request(settings, batch, *numbers)).report


def finals(cluster: Cluster) -> list[bytes | None]:
    log = cluster.topics["orders"].partitions[0]
    return [log.records[at].value for at in range(log.end) if log.is_visible(at)]


def marker() -> Marker:
    store = MarkerStore(BARE)
    found = store.read([0])[0]
    store.close()
    return found
