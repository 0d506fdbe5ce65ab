"""Batches with nothing to do: what a batch costs at the least."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

from confluent_kafka import Producer

from checkback.bench.batches import median_ms, within
from checkback.bench.event_log import Batch
from checkback.bench.looking import looking
from checkback.bench.query import Query
from checkback.bench.stage import Trial
from checkback.protocol.records import tick_headers
from checkback.sinks.transaction import SentHeaders

INTERVAL_S: Final = 0.02
BATCHES_LEAST: Final = 5
PATIENCE_S: Final = 20.0
"""How long to wait for so many batches on a machine that is busy otherwise."""


@contextmanager
def ticking(trial: Trial) -> Iterator[None]:
    """Write a tick to the op topic every 20 ms as long as the context lasts.

    Without new data Spark runs no batch of a stateless query at all; a tick is data that neither
    the job nor its baseline makes anything of.
    """
    producer = Producer({**trial.stage.connection, "linger.ms": 0})
    headers = cast("SentHeaders", tick_headers())

    def tick() -> None:
        producer.produce(trial.settings.topics.op, b"", partition=0, headers=headers)
        producer.poll(0)

    try:
        with looking(tick, INTERVAL_S, "ticks"):
            yield
    finally:
        producer.flush(30.0)


def empty_ms(query: Query, seconds: float) -> float:
    """Return the median batch without a record, or with ticks alone where Spark runs no such batch.

    Args:
        query: runs, with nothing to do.
        seconds: how long it is watched at least.
    """
    found = _batches(query, seconds, lambda batch: not batch.rows)
    if found:
        return median_ms(found)
    with ticking(query.trial):
        return ticked_ms(query, seconds)


def ticked_ms(query: Query, seconds: float) -> float:
    """Return the median batch with ticks alone; somebody writes them meanwhile.

    Args:
        query: runs, with nothing else to do.
        seconds: how long it is watched at least.
    """
    return median_ms(_batches(query, seconds, lambda batch: batch.rows > 0))


def _batches(query: Query, seconds: float, wanted: Callable[[Batch], bool]) -> list[Batch]:
    """Return the wanted batches of so many seconds; of more, until there are enough to tell."""
    from_ms, _ = query.run_for(seconds)
    deadline_s = time.monotonic() + PATIENCE_S

    def found() -> list[Batch]:
        return [one for one in within(query.batches(), from_ms, math.inf) if wanted(one)]

    query.wait_until(
        lambda: len(found()) >= BATCHES_LEAST or time.monotonic() > deadline_s, 2 * PATIENCE_S
    )
    return found()
