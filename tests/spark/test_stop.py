"""A wish to stop is no failure, whenever it comes; a failure is one, also while stopping."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from checkback.checkpoints.spark_internals import set_micro_batches_log
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import OperationalError
from checkback.streaming.batch.stop import end_between_batches
from checkback.streaming.job.run import Job
from checkback.streaming.spark.session import DEFAULTS

OWN_STOP = StreamingQueryException(
    "An exception was raised by the Python Proxy.\n"
    "checkback.streaming.batch.stop.StoppedBetweenBatchesError\n"
)
FAILURE = StreamingQueryException("The state store is broken.")


class EndingQuery:
    """Ends while it is waited for, and calls a function just before; real ones race for it."""

    lastProgress = None  # noqa: N815 - Spark's name
    status = {"message": "Processing new data"}  # noqa: RUF012 - Spark's name and type

    def __init__(self, job: Job, failure: StreamingQueryException | None, *, stop: bool) -> None:
        self._job = job
        self._failure = failure
        self._stop = stop

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - Spark's name
        if self._stop:
            self._job.stop()
        return True

    def exception(self) -> StreamingQueryException | None:
        return self._failure

    def stop(self) -> None:
        pass


def watch(failure: StreamingQueryException | None, *, stop: bool) -> list[str]:
    told: list[str] = []

    def emit(event: str, _: object) -> None:
        told.append(event)

    job = Job(Settings(bootstrap_servers="127.0.0.1:1"), list[Path](), emit)
    query: Any = EndingQuery(job, failure, stop=stop)
    job._observed = MagicMock()  # run() makes it
    job._watch(MagicMock(), query)
    return told


@pytest.mark.parametrize("failure", [OWN_STOP, None])
def test_a_stop_while_the_end_is_waited_for_is_no_failure(
    failure: StreamingQueryException | None,
) -> None:
    assert watch(failure, stop=True) == ["progress"]


@pytest.mark.parametrize("stop", [True, False])
def test_a_failure_is_told_also_while_stopping(stop: bool) -> None:
    with pytest.raises(OperationalError, match="The state store is broken"):
        watch(FAILURE, stop=stop)


def test_an_end_that_nobody_asked_for_is_a_failure() -> None:
    with pytest.raises(OperationalError):
        watch(None, stop=False)


def test_a_wait_for_a_long_batch_is_no_hang() -> None:
    """Rules that changed in such a batch had the probe end the process amid it."""
    job = Job(Settings(bootstrap_servers="b:1", checkpoint="c"), [], lambda *_: None)
    job._observed = MagicMock()
    assert job._waits_for_batch()
    job._observed.health.beat.assert_called_once()
    job.stop()
    assert not job._waits_for_batch()


def test_the_last_line_of_a_job_asks_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are silent would keep the job from ending."""
    asked: list[object] = []
    monkeypatch.setattr(Job, "_admin_client", asked.append)

    watch(OWN_STOP, stop=True)

    assert asked == []


def test_a_batch_that_does_not_come_back_holds_up_no_stop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's stop interrupts the batch's thread, which waits for Python, and waited for ever."""
    monkeypatch.setattr("checkback.streaming.batch.stop.STOP_WAIT_S", 0.5)
    assert DEFAULTS["spark.sql.streaming.stopTimeout"] == "20s"
    spark.conf.set("spark.sql.streaming.stopTimeout", "1s")
    has_begun, may_end = Event(), Event()

    def hang(_: object, __: int) -> None:
        has_begun.set()
        may_end.wait(120)

    rows = spark.readStream.format("rate").load()
    written = rows.writeStream.foreachBatch(hang).option("checkpointLocation", str(tmp_path))
    query = written.start()
    assert has_begun.wait(120)
    began_s = time.monotonic()

    end_between_batches(spark, query)

    assert time.monotonic() - began_s < 30
    may_end.set()
    set_micro_batches_log(spark, "ERROR")
    spark.conf.unset("spark.sql.streaming.stopTimeout")
