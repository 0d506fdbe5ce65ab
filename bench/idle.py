"""Batches with nothing to do: what a batch costs at the least."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

from confluent_kafka import Producer

from checkback.bench.batches import median_ms, within
from checkback.bench.query import Query
from checkback.bench.stage import Trial
from checkback.protocol.records import tick_headers
from checkback.sinks.transaction import SentHeaders

INTERVAL_S: Final = 0.02


@contextmanager
def ticking(trial: Trial) -> Iterator[None]:
    """Write a tick to the op topic every 20 ms as long as the context lasts.

    Without new data Spark runs no batch of a stateless query at all; a tick is data that neither
    the job nor its baseline makes anything of.
    """
    ending = threading.Event()

    def write() -> None:
        producer = Producer({**trial.stage.connection, "linger.ms": 0})
        headers = cast("SentHeaders", tick_headers())
        while not ending.wait(INTERVAL_S):
            producer.produce(trial.settings.topics.op, b"", partition=0, headers=headers)
            producer.poll(0)
        producer.flush(30.0)

    thread = threading.Thread(target=write, name="ticks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Idle:
    """How long a batch takes when no transaction comes.

    Args:
        empty_ms: median of the batches without a record; of ticked ones where Spark ran none.
        ticked_ms: median of the batches with ticks alone.
    """

    empty_ms: float
    ticked_ms: float


def measure_idle(query: Query, seconds: float) -> Idle:
    """Let a query run so long without a record, and so long with ticks alone."""
    span = query.run_for(seconds)
    with ticking(query.trial):
        ticked = ticked_ms(query, seconds)
    empty = [batch for batch in within(query.batches(), *span) if not batch.rows]
    return Idle(median_ms(empty) if empty else ticked, ticked)


def ticked_ms(query: Query, seconds: float) -> float:
    """Return the median batch with ticks alone; somebody writes them meanwhile."""
    span = query.run_for(seconds)
    return median_ms([batch for batch in within(query.batches(), *span) if batch.rows])
