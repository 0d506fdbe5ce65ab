"""What Spark forks its Python workers from."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.streaming.spark.python_workers import EXIT_LET_GO, NEEDED, ending_quietly

LOOK = """
import json, os, sys
from checkback.streaming.spark.python_workers import import_needed
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


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_whose_jvm_has_gone_ends_without_a_trace(error: type[Exception]) -> None:
    def task(_: socket.socket, authenticated: bool) -> int:
        raise error("nobody reads any more")

    with socket.socket() as connection:
        assert ending_quietly(task)(connection, True) == EXIT_LET_GO
        assert ending_quietly(lambda *_: 0)(connection, True) == 0
