"""The process that Spark forks its Python workers from, with all that they need imported.

Spark's own (pyspark.daemon) imports nothing and leaves it to each worker: a second of processor
time for pandas, pyarrow and the rest, in each of the five to seven workers of a start, before the
first batch. It does so because threads do not survive a fork, and pandas and pyarrow start some
when they are imported. These two can be told not to (``tests/spark/test_worker_daemon.py`` counts
the threads): OpenBLAS has nothing to compute here, and jemalloc is not the pool Arrow takes.

Spark starts it by its name (`spark.python.daemon.module`), so it has to be installed where
executors run: Checkback sets it for local masters alone.
"""

from __future__ import annotations

import importlib
import os
from typing import Final

WITHOUT_THREADS: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Read by the libraries when they are loaded."""

NEEDED: Final = (
    "numpy", "pandas", "pyarrow", "pyspark.worker", "pyspark.sql.pandas.serializers",
    "checkback.streaming.pages", "checkback.sinks.task", "checkback.checkpoints.status",
)  # fmt: skip


def import_needed() -> None:
    """Import what workers need, without a thread, and keep it out of the garbage collector."""
    os.environ.update(WITHOUT_THREADS)
    for name in NEEDED:
        importlib.import_module(name)
    from checkback.sinks.python_worker import keep_modules

    keep_modules()


if __name__ == "__main__":
    import_needed()
    from pyspark.daemon import manager

    manager()
