"""Measures batches with nothing to do: the least cost of a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

from confluent_kafka import Producer

from checkback.bench.batches import median_ms, within
from checkback.bench.event_log import MeasuredBatch
from checkback.bench.monitored_process import MonitoredProcess
from checkback.bench.query import Query
from checkback.bench.sampler import sampling
from checkback.bench.stage import Trial
from checkback.protocol.records import tick_headers
from checkback.sinks.kafka.sink_record import SentHeaders

INTERVAL_S: Final = 0.02
BATCHES_LEAST: Final = 5
PATIENCE_S: Final = 20.0
"""How long to wait for this many batches on a busy machine."""


@contextmanager
def ticking(trial: Trial) -> Iterator[None]:
    """Write a tick to the feedback topic every 20 ms inside the block.

    Without new data Spark runs no batch of a stateless query at all. A tick is data that both the
    job and its baseline ignore.
    """
    producer = Producer({**trial.stage.connection, "linger.ms": 0})
    headers = cast("SentHeaders", tick_headers())

    def tick() -> None:
        producer.produce(trial.settings.topics.feedback, b"", partition=0, headers=headers)
        producer.poll(0)

    try:
        with sampling(tick, INTERVAL_S, "ticks"):
            yield
    finally:
        producer.flush(30.0)


def empty_ms(query: Query, seconds: float) -> float:
    """Return the median batch with nothing but a tick.

    One without even that is held at its end until there is something to do (streaming/idling.py),
    so its time means nothing.

    Args:
        query: a running query with nothing to do.
        seconds: how long it is watched at least.
    """
    with ticking(query.trial):
        return ticked_ms(query, seconds)


def ticked_ms(query: MonitoredProcess, seconds: float) -> float:
    """Return the median batch with only ticks; the caller lets `ticking` write them.

    Args:
        query: a running query with nothing else to do.
        seconds: how long it is watched at least.
    """
    return median_ms(_batches(query, seconds, lambda batch: batch.rows > 0))


def _batches(
    query: MonitoredProcess, seconds: float, wanted: Callable[[MeasuredBatch], bool]
) -> list[MeasuredBatch]:
    """Return the wanted batches of that many seconds, or of more until there are enough."""
    from_ms, _ = query.run_for(seconds)
    deadline_s = time.monotonic() + PATIENCE_S

    def found() -> list[MeasuredBatch]:
        return [one for one in within(query.batches(), from_ms, math.inf) if wanted(one)]

    query.wait_until(
        lambda: len(found()) >= BATCHES_LEAST or time.monotonic() > deadline_s, 2 * PATIENCE_S
    )
    return found()
