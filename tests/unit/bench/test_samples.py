"""Samples of processor time, memory and the machine's speed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from bench.runs.samples import (
    PROC,
    PYTHON_KINDS,
    Process,
    ProcessWatch,
    Sample,
    all_processes,
    descendants,
    kind_of,
    sampling,
)

needs_proc = pytest.mark.skipif(not PROC.is_dir(), reason="this system has no /proc")


@pytest.mark.parametrize(
    ("command", "name", "kind"),
    [
        ("/usr/lib/jvm/bin/java -cp x org.apache.spark.deploy.SparkSubmit", "java", "jvm"),
        ("/v/bin/python3 -m pyspark.daemon pyspark.worker", "python3", "python_worker"),
        ("/v/bin/python3 /v/bin/checkback run --config c", "checkback", "driver"),
        ("/v/bin/python3 -m checkback.sinks.process.server", "python3", "sink"),
        ("/v/bin/python3 -m pyspark.daemon pyspark.worker", "checkback-sink", "sink"),
    ],
)
def test_a_process_is_told_by_its_command_and_name(command: str, name: str, kind: str) -> None:
    assert kind_of(command, name) == kind


def test_a_tree_has_all_below_its_root() -> None:
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 99}
    processes = {pid: Process(pid, parent, 0, 0.0, 0) for pid, parent in parents.items()}

    assert descendants(processes, [2]) == [2, 3, 4]
    assert descendants(processes, [4, 3, 3]) == [3, 4]
    assert descendants(processes, [77]) == []


@needs_proc
def test_a_child_is_found_with_its_parent_and_what_it_used() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "x = sum(range(3_000_000)); print(x, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    found = {process.pid: process for process in all_processes()}[child.pid]
    child.communicate(b"\n")

    assert found.parent == os.getpid()
    assert found.cpu_s > 0
    assert found.rss_bytes > 1_000_000


ORPHAN_MAKER = """
import subprocess, sys
nobody = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], **nobody)
print(orphan.pid, flush=True)
input()
"""


@needs_proc
def test_a_process_is_watched_on_when_its_parent_has_ended() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN_MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    orphan = int(parent.stdout.readline())
    try:
        watch = ProcessWatch(parent.pid)
        watch.sample()
        parent.communicate(b"\n")
        watch.sample()
    finally:
        os.kill(orphan, signal.SIGKILL)

    assert watch.samples[-1].rss_bytes["driver"] > 0


def test_processor_time_of_a_span_lies_between_the_samples_around_it() -> None:
    watch = ProcessWatch(0)
    watch.samples = [
        Sample(1_000, {"jvm": 1.0}, {}, 0),
        Sample(2_000, {"jvm": 3.0, "sink": 1.0}, {}, 0),
        Sample(3_000, {"jvm": 4.0, "sink": 2.0}, {}, 0),
    ]

    assert watch.cpu_s_between(1_500, 3_000) == {"jvm": 2.0, "sink": 1.5}
    assert watch.cpu_s_between(0, 9_000) == {"jvm": 3.0, "sink": 2.0}


def test_memory_is_that_of_the_largest_process_in_the_span() -> None:
    watch = ProcessWatch(0)
    mib = 1024 * 1024
    watch.samples = [
        Sample(1.0, {}, {"sink": 90 * mib}, 0),
        Sample(2.0, {}, {"python_worker": 70 * mib}, 0),
    ]

    assert watch.rss_mib_max(PYTHON_KINDS) == 90
    assert watch.rss_mib_max(PYTHON_KINDS, 1.5, 3.0) == 70


def test_a_function_is_called_until_the_block_ends() -> None:
    called = threading.Event()

    with sampling(called.set, 0.001, "sampler"):
        assert called.wait(10)
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


def test_the_machine_s_speed_is_the_median_of_the_span() -> None:
    watch = ProcessWatch(0)
    watch.sample()
    assert watch.samples[0].work_us > 0
    took = [(1.0, 900.0), (2.0, 400.0), (3.0, 500.0), (4.0, 420.0), (5.0, 10.0)]
    watch.samples = [Sample(at_ms, {}, {}, work_us) for at_ms, work_us in took]

    assert watch.work_us_between(2, 4) == 420
    assert watch.work_us_between(6, 7) == 0
