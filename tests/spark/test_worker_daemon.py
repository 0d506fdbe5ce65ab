"""What Spark forks its Python workers from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.streaming.worker_daemon import NEEDED

LOOK = """
import json, os, sys
from checkback.streaming.worker_daemon import import_needed
import_needed()
print(json.dumps([os.listdir("/proc/self/task"), sorted(sys.modules)]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
def test_nothing_that_workers_need_starts_a_thread() -> None:
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True)

    threads, modules = json.loads(found.stdout)

    assert len(threads) == 1
    assert set(NEEDED) <= set(modules)


def test_workers_of_a_local_spark_are_forked_with_it(spark: SparkSession) -> None:
    def imported(_: object) -> list[bool]:
        return [name in sys.modules for name in NEEDED]

    assert spark.sparkContext.parallelize([0], 1).map(imported).collect() == [[True] * len(NEEDED)]
