"""A real Spark standalone cluster: what executors need reaches them.

Master and two workers come from pyspark's own scripts. The workers' Python has the locked libraries
but not Checkback, so the package zip that the job hands out is what they import.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.integration.running import (
    COMMIT,
    QUICK_JVM,
    QUICK_SPARK,
    Pipeline,
    Topics,
    wait_until,
)

from checkback.deploy.ports import free_ports

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python with every locked library, but no Checkback: .pth files are not read twice."""
    folder = tmp_path / "bare"
    venv.create(folder, with_pip=False)
    libraries = sysconfig.get_paths()["purelib"]
    own = next((folder / "lib").glob("python3*/site-packages"))
    (own / "libraries.pth").write_text(libraries + "\n")
    python = folder / "bin" / "python"
    found = subprocess.run([python, "-c", "import checkback"], capture_output=True, check=False)
    assert found.returncode != 0, "the workers' Python must not have Checkback"
    return python


@pytest.fixture
def cluster(tmp_path: Path, bare_python: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    port, *web_ports = free_ports(4)
    url = f"spark://127.0.0.1:{port}"
    addresses = ["--host", "127.0.0.1", "--webui-port"]
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", *addresses, str(web_ports[0]), "--port", str(port)]]
    for web_port in web_ports[1:]:
        sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"w{web_port}")]
        commands.append([f"{deploy}.worker.Worker", *addresses, str(web_port), *sizes, url])
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        "PYSPARK_PYTHON": str(bare_python),
    }
    processes = []
    for number, command in enumerate(commands):
        log = (tmp_path / f"spark-{number}.log").open("w")
        processes.append(
            subprocess.Popen([SPARK_CLASS, *command], env=environment, stdout=log, stderr=log)
        )
        log.close()
        if number == 0:
            _wait_for_text(tmp_path / "spark-0.log", "I have been elected leader")
    try:
        _wait_for_text(tmp_path / "spark-0.log", "Registering worker", times=2)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


def test_executors_without_checkback_run_the_pipeline(
    cluster: str, bare_python: Path, bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    topics = Topics(bootstrap_servers, unique)
    settings = topics.settings(
        tmp_path / "checkpoint",
        master=cluster,
        spark={
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "700m",
            **QUICK_SPARK,
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        },
    )
    real = f"{unique}orders"
    topics.create(settings, [real], ["g"])
    for number in range(40):
        at = topics.send_half(f"{number:02}".encode(), real, partition=number % 2)
        topics.send_op(at, f"{number:02}", COMMIT)
    environment = {"PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": sys.executable}

    with Pipeline(settings, tmp_path, environment) as pipeline:
        pipeline.wait_for("started")
        wait_until(lambda: len(topics.bodies(real)) == 40, 120, "40 finals")
        assert pipeline.terminate() == 0

    assert topics.bodies(real) == [f"{number:02}" for number in range(40)]
    master_log = (tmp_path / "spark-0.log").read_text()
    assert len(set(re.findall(r"Launching executor app-\S+/(\d+)", master_log))) == 2


def _wait_for_text(log: Path, text: str, times: int = 1) -> None:
    deadline = time.monotonic() + 60
    while log.read_text().count(text) < times:
        assert time.monotonic() < deadline, f"{text!r} not in {log.read_text()[-2_000:]}"
        time.sleep(0.1)
