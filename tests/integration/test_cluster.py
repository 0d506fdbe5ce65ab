"""A real Spark standalone cluster: what executors need reaches them.

The workers' Python has the locked libraries but not Checkback, so the package zip that the job
hands out is what they import. Their JVMs get the class that verifies signatures.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.integration.cluster import CLUSTER_SPARK, make_bare_python, standalone_cluster
from tests.integration.running import Pipeline, Topics, wait_until
from tests.integration.tenants import ALICE, Stage, rules


def test_executors_without_checkback_run_the_pipeline_and_verify_signatures(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    bare_python = make_bare_python(tmp_path / "bare")
    topics = Topics(bootstrap_servers, unique)
    environment = {"PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(rules(unique))
    names = [f"{number:02}" for number in range(40)]

    with standalone_cluster(tmp_path, bare_python) as master:
        settings = topics.settings(
            tmp_path / "checkpoint", master=master, spark=CLUSTER_SPARK, acl_file=str(accounts)
        )
        topics.create(settings, [f"{unique}alice"], [f"{unique}a"])
        with Pipeline(settings, tmp_path, environment) as pipeline:
            pipeline.wait_for("started")
            stage = Stage(topics, pipeline, unique, accounts)
            alice = stage.signer(ALICE)
            stage.op(stage.half("unsigned", None), "unsigned", alice)
            for name in names:
                stage.op(stage.half(name, alice), name, alice)
            wait_until(lambda: len(stage.bodies()) == len(names), 120, "40 finals")
            stage.wait_until_refused("unsigned", "ACCESS_KEY_MISSING")
            assert pipeline.terminate() == 0

    assert stage.bodies() == names
    master_log = (tmp_path / "master.log").read_text()
    assert len(set(re.findall(r"Launching executor app-\S+/(\d+)", master_log))) == 2
