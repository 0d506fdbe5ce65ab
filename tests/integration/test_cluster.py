"""A real Spark standalone cluster: what executors need reaches them.

The workers' Python has the locked libraries but not Checkback, so the package zip that the job
hands out is what they import. Their JVMs get the class that verifies signatures.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from tests.integration.cluster import CLUSTER_SPARK, make_bare_python, standalone_cluster
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.tenants import ALICE, Stage, rules

from checkback.deploy.pack import write_pack
from checkback.deploy.settings import environment_without_settings, write_settings

SPARK_HOME = Path(pyspark.__file__).parent
SUBMIT = str(SPARK_HOME / "bin" / "spark-submit")


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


@pytest.mark.nightly
@pytest.mark.timeout(600)  # a master, two workers and a driver start
def test_spark_submit_runs_the_job_from_its_pack_alone(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    """As docs/operating/deploy.md says; neither driver nor executors have Checkback installed."""
    bare_python = make_bare_python(tmp_path / "bare")
    topics, real = Topics(bootstrap_servers, unique), f"{unique}orders"
    pack = write_pack(tmp_path / "pack")
    names = [f"{number:02}" for number in range(20)]

    with standalone_cluster(tmp_path, bare_python) as master:
        settings = topics.settings(tmp_path / "checkpoint", master=master, spark={})
        topics.create(settings, [real], ["g"])
        write_settings(tmp_path / "checkback.toml", settings)
        options = [f"--conf={key}={value}" for key, value in CLUSTER_SPARK.items()]
        command = [SUBMIT, "--master", master, *options, *pack.submit_options, str(pack.program)]
        with submitted([*command, "run", "--config", "checkback.toml"], bare_python, tmp_path):
            for number, body in enumerate(names):
                at = topics.send_half(body.encode(), real, partition=number % 2)
                topics.send_op(at, body, COMMIT)
            wait_until(lambda: len(topics.bodies(real)) >= len(names), 200, "20 finals")

    assert topics.bodies(real) == names
    told = (tmp_path / "submit.out").read_text().splitlines()
    assert json.loads(told[0])["event"] == "started"


@contextmanager
def submitted(command: list[str], python: Path, folder: Path) -> Iterator[None]:
    """Run spark-submit inside the block; its JVM takes the driver's Python along when it ends."""
    environment = {
        **environment_without_settings(),
        "PYTHONPATH": "",
        "PYSPARK_PYTHON": str(python),
        "SPARK_HOME": str(SPARK_HOME),
    }
    with (folder / "submit.out").open("wb") as out, (folder / "submit.err").open("wb") as log:
        submission = subprocess.Popen(
            [*command, "--output", "json"],
            env=environment, cwd=folder, stdout=out, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield
    except BaseException:
        print((folder / "submit.err").read_text()[-3_000:])
        raise
    finally:
        os.killpg(submission.pid, signal.SIGTERM)
        try:
            submission.wait(100)
        except subprocess.TimeoutExpired:
            os.killpg(submission.pid, signal.SIGKILL)
            submission.wait()
