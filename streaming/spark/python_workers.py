"""The daemon that forks Spark's Python workers, with their imports already done.

Spark's own daemon (pyspark.daemon) leaves the imports to each worker: a second of processor time
for pandas, pyarrow and the rest, in each of the five to seven workers of a start, before the first
batch. The reason is that threads do not survive a fork, and pandas and pyarrow start threads when
they are imported. Environment variables turn those threads off
(``tests/spark/test_worker_daemon.py`` counts the threads). Nothing is lost: OpenBLAS has nothing to
compute here, and Arrow does not use jemalloc's pool.

A stop often signals all processes of the pipeline (see ``driver_jvm.py``). A worker that
ended then failed its task; the task was tried again on another one that ended, up to four times,
and then the batch failed. So SIGTERM does not reach the daemon and its workers. The JVM closes the
daemon's standard input to end it, and the daemon sends SIGHUP to its workers.

Spark starts the daemon by its module name (`spark.python.daemon.module`), so Checkback must be
installed where executors run. Therefore Checkback sets it only for local masters.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

Worker = Callable[[socket.socket, bool], int]
"""Runs one task over a connection; other than 0 means that the process is to end."""
EXIT_LET_GO: Final = 1

WITHOUT_THREADS: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Variables that the libraries read when they are loaded."""

NEEDED: Final = (
    "numpy", "pandas", "pyarrow", "pyspark.worker", "pyspark.sql.pandas.serializers",
    "checkback.streaming.pages.page_function", "checkback.streaming.batch.sink_task",
)  # fmt: skip

_modules_kept = 0


def import_needed() -> None:
    """Import what workers need without starting threads, and exclude it from garbage collection."""
    os.environ.update(WITHOUT_THREADS)
    for name in NEEDED:
        importlib.import_module(name)
    # Not this module, which Spark runs as a program: workers import it by its name.
    from checkback.streaming.spark.python_workers import keep_modules

    keep_modules()


def keep_modules() -> None:
    """Exclude everything imported so far from garbage collection.

    Spark's daemon collects the garbage of all generations after every session of a worker
    (pyspark.daemon, `gc.collect`), six times in a batch with two state partitions. With pandas and
    pyarrow loaded that visits several hundred thousand objects, none of which is ever freed. It
    took two thirds of the processor time of an empty batch's sessions.
    """
    global _modules_kept
    if len(sys.modules) > _modules_kept:
        _modules_kept = len(sys.modules)
        gc.collect()
        gc.freeze()


def ending_quietly(worker: Worker) -> Worker:
    """Return a worker's main function that ends without a trace when the JVM goes away.

    In the middle of a task Spark's daemon wrote a trace of that into the log of a job that ended as
    it should.
    """

    def run(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except ConnectionError:
            return EXIT_LET_GO

    return run


if __name__ == "__main__":
    # Blocked, not ignored: Spark's daemon and its workers set handlers of their own.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    import_needed()
    from checkback.checkpoints.spark_internals import run_worker_daemon

    run_worker_daemon(ending_quietly)
