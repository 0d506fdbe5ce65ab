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
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest
from tests.integration.cluster import CLUSTER_SPARK, make_bare_python, standalone_cluster
from tests.integration.running import COMMIT, Pipeline, Topics, wait_until
from tests.integration.tenants import ALICE, Stage, rules

from checkback.deploy.broker import EmbeddedBroker
from checkback.deploy.pack import write_pack
from checkback.deploy.settings import environment_without_settings, write_settings

# Six JVMs; by day tests/unit/test_submission.py has the package that is handed out.
pytestmark = pytest.mark.nightly
SPARK_HOME = Path(pyspark.__file__).parent
SUBMIT = str(SPARK_HOME / "bin" / "spark-submit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where master, workers and executors write."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def stage(broker: EmbeddedBroker, folder: Path) -> Iterator[Stage]:
    """A pipeline with access control on two executors."""
    bare_python, prefix = make_bare_python(folder / "bare"), f"t{uuid.uuid4().hex[:10]}-"
    topics = Topics(broker.bootstrap_servers, prefix)
    environment = {"PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    accounts = folder / "plain_acl.yml"
    accounts.write_text(rules(prefix))
    with standalone_cluster(folder, bare_python) as master:
        settings = topics.settings(
            folder / "checkpoint", master=master, spark=CLUSTER_SPARK, acl_file=str(accounts)
        )
        topics.create(settings, [f"{prefix}alice"], [f"{prefix}a"])
        with Pipeline(settings, folder, environment) as pipeline:
            pipeline.wait_for("started")
            yield Stage(topics, pipeline, prefix, accounts)


FIRST, SECOND, THIRD = ([f"{number:02}" for number in range(at, at + 40)] for at in (0, 40, 80))


def commit(stage: Stage, names: list[str]) -> None:
    alice = stage.signer(ALICE)
    for name in names:
        stage.op(stage.half(name, alice), name, alice)


def launched(folder: Path) -> int:
    """Return how many executors the master had started."""
    log = (folder / "master.log").read_text()
    return len(set(re.findall(r"Launching executor app-\S+/(\d+)", log)))


def test_executors_without_checkback_run_the_pipeline_and_verify_signatures(
    stage: Stage, folder: Path
) -> None:
    stage.op(stage.half("unsigned", None), "unsigned", stage.signer(ALICE))
    commit(stage, FIRST)

    wait_until(lambda: len(stage.bodies()) == len(FIRST), 120, "40 finals")
    stage.wait_until_refused("unsigned", "ACCESS_KEY_MISSING")
    assert stage.bodies() == FIRST
    assert launched(folder) == 2


def executors(folder: Path) -> list[int]:
    """Return the executors' JVMs: each runs in a folder of its own below the cluster's."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_below = (process / "cwd").readlink().is_relative_to(folder)
            if is_below and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


@pytest.mark.timeout(600)
def test_an_executor_that_is_killed_at_work_is_replaced_and_every_final_is_there_once(
    stage: Stage, folder: Path
) -> None:
    """At no moment in particular; tests/crash/test_executor.py kills it at two points."""
    commit(stage, SECOND)
    os.kill(min(executors(folder)), signal.SIGKILL)
    commit(stage, THIRD)

    expected = sorted(FIRST + SECOND + THIRD)
    wait_until(lambda: len(stage.bodies()) >= len(expected), 240, "80 finals more")
    wait_until(lambda: launched(folder) == 3, what="another executor")
    assert stage.pipeline.terminate() == 0, stage.pipeline.errors()
    assert stage.bodies() == expected


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
