"""A Spark standalone cluster on the loopback address, started with pyspark's own scripts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from checkback.bench.repository.control_group import control_group, inside
from checkback.deploy.ports import LOOPBACK, free_ports
from checkback.protocol.errors import OperationalError

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
SMALL: Final = {
    "SPARK_LOCAL_IP": LOOPBACK,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SPARK_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster.

    Args:
        master: its URL.
        pids: process ids of its workers; executors are their children.
    """

    master: str
    pids: tuple[int, ...]


@contextmanager
def standalone_cluster(
    folder: Path,
    workers: int,
    executor_memory: str,
    *,
    python: Path = Path(sys.executable),
    environment: Mapping[str, str] | None = None,
    bind_to_cores: bool = False,
    cores_each: float | None = None,
) -> Iterator[SparkCluster]:
    """Yield a cluster of workers with one core each.

    Args:
        folder: folder for the executors' folders and the logs; ``master.log`` is the master's.
        workers: number of workers.
        executor_memory: memory of each executor, as Spark writes sizes.
        python: the executors' Python.
        environment: more variables for the workers and their executors.
        bind_to_cores: bind each worker, with its executor's JVM, Python workers and sink process,
            to a core of its own, like a container's limit. Spark limits tasks, not processors:
            unbound, one executor "of one core" uses all cores of the machine.
        cores_each: limit each worker's processes to this much processor time on any core.

    Raises:
        OperationalError: the cluster did not start.
        PrerequisiteError: this machine can't limit processes to a share.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started_with = {**os.environ, **SMALL, "PYSPARK_PYTHON": str(python), **(environment or {})}
    port, *web_ports = free_ports(workers + 2)
    url = f"spark://{LOOPBACK}:{port}"
    deploy, address = "org.apache.spark.deploy", ["--host", LOOPBACK, "--webui-port"]
    processes: list[subprocess.Popen[bytes]] = []
    groups = ExitStack()
    try:
        master = [f"{deploy}.master.Master", *address, str(web_ports[0]), "--port", str(port)]
        processes.append(_start(folder, "master", master, started_with))
        _wait_for_text(folder / "master.log", "I have been elected leader", 1)
        for number, web_port in enumerate(web_ports[1:]):
            sizes = ["--cores", "1", "--memory", executor_memory, "--work-dir", str(folder)]
            worker = [f"{deploy}.worker.Worker", *address, str(web_port), *sizes, url]
            group = groups.enter_context(control_group(cores_each)) if cores_each else None
            with _on_core(number if bind_to_cores else None):
                name = f"worker-{number}"
                processes.append(_start(folder, name, worker, started_with, group))
        _wait_for_text(folder / "master.log", "Registering worker", workers)
        yield SparkCluster(url, tuple(process.pid for process in processes[1:]))
    finally:
        _end(processes)
        groups.close()


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        process.wait(STOP_TIMEOUT_S)


@contextmanager
def _on_core(number: int | None) -> Iterator[None]:
    """Bind the processes that this thread starts inside the block to one of its cores."""
    if number is None or not hasattr(os, "sched_setaffinity"):  # macOS binds to nothing
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[number % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _start(
    folder: Path,
    name: str,
    command: list[str],
    environment: Mapping[str, str],
    group: Path | None = None,
) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            inside(group, [str(SPARK_CLASS), *command]),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait_for_text(log: Path, text: str, times: int) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while log.read_text("utf-8", "replace").count(text) < times:
        if time.monotonic() > deadline_s:
            raise OperationalError("The cluster did not start.", remedy=f"Its logs: {log.parent}")
        time.sleep(0.1)
