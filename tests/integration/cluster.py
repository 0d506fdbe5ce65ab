"""A Spark standalone cluster on loopback: master and workers from pyspark's own scripts."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from tests.integration.running import QUICK_JVM, QUICK_SPARK

from checkback.deploy.broker import free_ports
from checkback.deploy.broker_files import LOOPBACK
from checkback.testing import wait_until

WORKERS = 2
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
SMALL = {
    "SPARK_LOCAL_IP": LOOPBACK,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
CLUSTER_SPARK = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "700m",
    **QUICK_SPARK,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def make_bare_python(folder: Path) -> Path:
    """Make a Python with every locked library, but no Checkback: .pth files are not read twice."""
    venv.create(folder, with_pip=False)
    libraries = sysconfig.get_paths()["purelib"]
    own = next((folder / "lib").glob("python3*/site-packages"))
    (own / "libraries.pth").write_text(libraries + "\n")
    python = folder / "bin" / "python"
    program = [str(python), "-E", "-c", "import checkback"]
    found = subprocess.run(program, capture_output=True, check=False)
    assert found.returncode != 0, "the workers' Python must not have Checkback"
    return python


@contextmanager
def standalone_cluster(
    folder: Path, python: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a master with two workers of one core each; give its URL.

    Args:
        folder: of logs and work; the master's log is ``master.log``.
        python: the executors' Python.
        environment: more for the workers, and for the executors that they start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    started_with = {**os.environ, **SMALL, "PYSPARK_PYTHON": str(python), **(environment or {})}
    port, *web_ports = free_ports(WORKERS + 2)
    url = f"spark://{LOOPBACK}:{port}"
    deploy, address = "org.apache.spark.deploy", ["--host", LOOPBACK, "--webui-port"]
    with ExitStack() as processes:
        master = [f"{deploy}.master.Master", *address, str(web_ports[0]), "--port", str(port)]
        processes.enter_context(_running(folder, "master", master, started_with))
        _wait_for_text(folder / "master.log", "I have been elected leader", 1)
        for number, web_port in enumerate(web_ports[1:]):
            sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder)]
            worker = [f"{deploy}.worker.Worker", *address, str(web_port), *sizes, url]
            processes.enter_context(_running(folder, f"worker-{number}", worker, started_with))
        _wait_for_text(folder / "master.log", "Registering worker", WORKERS)
        yield url


@contextmanager
def _running(
    folder: Path, name: str, command: list[str], environment: Mapping[str, str]
) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(SPARK_CLASS), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def _wait_for_text(log: Path, text: str, times: int) -> None:
    wait_until(
        lambda: log.read_text("utf-8", "replace").count(text) >= times, START_TIMEOUT_S, text
    )
