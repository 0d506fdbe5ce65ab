"""A real Spark standalone cluster: what executors need reaches them.

The workers' Python has the locked libraries but not Checkback, so the package zip that the job
hands out is what they import.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.integration.cluster import CLUSTER_SPARK, make_bare_python, standalone_cluster
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until


def test_executors_without_checkback_run_the_pipeline(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    bare_python = make_bare_python(tmp_path / "bare")
    topics = Topics(bootstrap_servers, unique)
    environment = {"PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    real = f"{unique}orders"

    with standalone_cluster(tmp_path, bare_python) as master:
        checkpoint = tmp_path / "checkpoint"
        settings = topics.settings(checkpoint, master=master, spark=CLUSTER_SPARK)
        topics.create(settings, [real], ["g"])
        for number in range(40):
            at = topics.send_half(f"{number:02}".encode(), real, partition=number % 2)
            topics.send_op(at, f"{number:02}", COMMIT)
        with Pipeline(settings, tmp_path, environment) as pipeline:
            pipeline.wait_for("started")
            wait_until(lambda: len(topics.bodies(real)) == 40, 120, "40 finals")
            assert pipeline.terminate() == 0

    assert topics.bodies(real) == [f"{number:02}" for number in range(40)]
    master_log = (tmp_path / "master.log").read_text()
    assert len(set(re.findall(r"Launching executor app-\S+/(\d+)", master_log))) == 2
