"""A Spark standalone cluster on loopback: master and workers from pyspark's own scripts."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.integration.running import QUICK_JVM, QUICK_SPARK

from checkback.deploy.ports import free_ports

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
CLUSTER_SPARK = {
    "spark.ui.enabled": "false",
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
    found = subprocess.run([python, "-c", "import checkback"], capture_output=True, check=False)
    assert found.returncode != 0, "the workers' Python must not have Checkback"
    return python


@contextmanager
def standalone_cluster(
    folder: Path, python: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a master with two workers of one core each; give its URL.

    Args:
        folder: of logs and work; the master's log is ``spark-0.log``.
        python: the executors' Python.
        environment: more for the workers, and for the executors that they start.
    """
    port, *web_ports = free_ports(4)
    url = f"spark://127.0.0.1:{port}"
    addresses = ["--host", "127.0.0.1", "--webui-port"]
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", *addresses, str(web_ports[0]), "--port", str(port)]]
    for web_port in web_ports[1:]:
        sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"w{web_port}")]
        commands.append([f"{deploy}.worker.Worker", *addresses, str(web_port), *sizes, url])
    processes = []
    for number, command in enumerate(commands):
        with (folder / f"spark-{number}.log").open("w") as log:
            processes.append(
                subprocess.Popen(
                    [SPARK_CLASS, *command],
                    env=_environment(python, environment or {}),
                    stdout=log,
                    stderr=log,
                )
            )
        if number == 0:
            _wait_for_text(folder / "spark-0.log", "I have been elected leader")
    try:
        _wait_for_text(folder / "spark-0.log", "Registering worker", times=2)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


def _environment(python: Path, more: Mapping[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        "PYSPARK_PYTHON": str(python),
        **more,
    }


def _wait_for_text(log: Path, text: str, times: int = 1) -> None:
    deadline = time.monotonic() + 60
    while log.read_text().count(text) < times:
        assert time.monotonic() < deadline, f"{text!r} not in {log.read_text()[-2_000:]}"
        time.sleep(0.1)
