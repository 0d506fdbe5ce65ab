"""A Spark standalone cluster on loopback: master and workers from pyspark's own scripts."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.integration.running import QUICK_JVM, QUICK_SPARK

from checkback.bench.repository.cluster import standalone_cluster as one_core_workers

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
    cluster = one_core_workers(folder, 2, "1g", python=python, environment=environment)
    with cluster as running:
        yield running.master
