"""Stops a query between two batches: for good, by a signal, or to begin again with other rules."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.checkpoints.spark_internals import IDLE_QUERY, set_micro_batches_log

WATCH_S: Final = 0.2
STOP_WAIT_S: Final = 80.0
"""A stop takes more time where brokers are silent: for a look that is under way, the interrupted
batch, and Spark. Together this is less than the 150 s that the files in deploy/ grant."""


class StoppedBetweenBatchesError(Exception):
    """Raised inside Spark to end the query before it touches the next batch; no failure."""


def wait_for_end(query: StreamingQuery, timeout_s: float) -> bool:
    """Wait up to a timeout for the query to end by itself; return whether it did."""
    try:
        # Its annotation says whole seconds; it takes and documents fractions.
        return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]
    except StreamingQueryException:
        return True


def is_own_stop(failure: StreamingQueryException | None) -> bool:
    """Return whether the query ended because the sink refused a batch on request.

    The request may come during a wait for the query's end, and the query may end right after it.
    """
    return failure is not None and StoppedBetweenBatchesError.__name__ in str(failure)


def end_between_batches(
    spark: SparkSession, query: StreamingQuery, is_patient: Callable[[], bool] = lambda: False
) -> None:
    """Let the batch at work be finished, then end the query.

    StreamingQuery.stop() would interrupt it. The sink refuses the batch after it before touching
    anything; Spark has planned that batch then, and the next start runs it as planned.

    Args:
        is_patient: returns whether the batch has unlimited time; else it is interrupted
            after STOP_WAIT_S. One that does not even end then is left to the end of the process.
    """
    set_micro_batches_log(spark, "OFF")
    deadline = time.monotonic() + STOP_WAIT_S
    while time.monotonic() < deadline and not wait_for_end(query, WATCH_S):
        if query.status["message"] == IDLE_QUERY:
            break
        if is_patient():
            deadline = time.monotonic() + STOP_WAIT_S
    with suppress(Py4JJavaError):  # Spark's stopTimeout is over
        query.stop()


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT inside the block."""
    previous = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
