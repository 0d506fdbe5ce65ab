"""A real YARN and a real HDFS: cluster mode, and an application master that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from tests.integration.cluster import make_bare_python
from tests.integration.hadoop import Hadoop, mini_hadoop
from tests.integration.running import COMMIT, QUICK_JVM, ROLLBACK, Topics, wait_until
from tests.integration.two_writers import refused_second
from tests.integration.wheels import built_wheel, unpack_wheel

from checkback.checkpoints.store import CheckpointStore
from checkback.deploy.pack import write_pack
from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.operations.checkpoint.open import open_files
from checkback.protocol.configuration import Settings

SPARK_HOME = Path(pyspark.__file__).parent
ENDS_S = 30.0
PATIENCE_S = 200.0
SUBMIT = str(SPARK_HOME / "bin" / "spark-submit")


@pytest.fixture
def hadoop(tmp_path: Path) -> Iterator[Hadoop]:
    with mini_hadoop(tmp_path / "hadoop") as running:
        yield running
        running.end_applications()


def spark_options(python: Path) -> dict[str, str]:
    return {
        "spark.yarn.maxAppAttempts": "3",
        # Otherwise each submission uploads all of Spark.
        "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": str(python),
        "spark.executorEnv.PYSPARK_PYTHON": str(python),
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.executor.instances": "1",
        "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": QUICK_JVM,
        # Nobody else needs to reach them.
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.mark.nightly
@pytest.mark.timeout(900)  # three JVMs start, and two of them a second time
@pytest.mark.parametrize("form", ["zip", "wheel"])
def test_yarn_restarts_a_killed_driver_and_each_final_is_written_once(
    bootstrap_servers: str, unique: str, tmp_path: Path, hadoop: Hadoop, form: str
) -> None:
    topics, real = Topics(bootstrap_servers, unique), f"{unique}orders"
    settings = topics.settings(f"{hadoop.namenode}/checkback", master="yarn", spark={})
    topics.create(settings, [real], ["g"])
    config = tmp_path / "checkback.toml"
    write_settings(config, settings)
    python, files = files_to_submit(tmp_path, form)
    committed: list[str] = []

    def settle_some() -> None:
        names = [f"{len(committed) + number:03}" for number in range(20)]
        for number, body in enumerate(names):
            at = topics.send_half(body.encode(), real, partition=number % 2)
            topics.send_op(at, body, COMMIT)
            lost = topics.send_half(f"never {body}".encode(), real, partition=number % 2)
            topics.send_op(lost, f"never {body}", ROLLBACK)
        committed.extend(names)

    def all_there() -> bool:
        return len(topics.bodies(real)) >= len(committed)

    def wait_for_all(what: str) -> None:
        try:
            wait_until(all_there, PATIENCE_S, what)
        except BaseException:
            print((tmp_path / "submit.log").read_text()[-3_000:], hadoop.logs()[-8_000:])
            raise

    with submitted(config, python, hadoop, files, tmp_path):
        settle_some()
        wait_for_all("finals of the first attempt")
        settle_some()
        for pid in hadoop.masters():
            os.kill(pid, signal.SIGKILL)
        wait_for_all("finals of the second attempt")
        assert hadoop.attempts() == 2

    assert topics.bodies(real) == committed


@pytest.mark.nightly  # test_object_store.py holds the rule for S3, without a Hadoop to start
def test_of_two_drivers_that_plan_a_batch_on_hdfs_at_once_one_is_refused(hadoop: Hadoop) -> None:
    settings = Settings(checkpoint=f"{hadoop.namenode}/checkpoint")
    with open_files(settings) as store:
        assert isinstance(store, CheckpointStore)
        spark, path = (
            store.jvm.org.apache.spark.sql.execution.streaming,
            store.jvm.org.apache.hadoop,
        )
        managers = getattr(spark.checkpointing, "CheckpointFileManager$")
        manager = getattr(managers, "MODULE$").create(
            path.fs.Path(settings.checkpoint), store.configuration
        )
        manager.mkdirs(path.fs.Path(f"{settings.checkpoint}/offsets"))
        plan = path.fs.Path(f"{settings.checkpoint}/offsets/7")
        refused_second(manager, plan)

        assert store.read("offsets/7") == b"ours"
        assert [store.create_own("rules/1.json", text) for text in ("a", "b")] == [True, False]


def files_to_submit(folder: Path, form: str) -> tuple[Path, list[str]]:
    """Return the cluster's Python, and the options and the program for spark-submit."""
    python = make_bare_python(folder / "bare")
    pack = write_pack(folder / "pack")
    options = [*pack.submit_options, str(pack.program)]
    if form == "wheel":
        unpack_wheel(built_wheel(folder), python)
        return python, options[2:]
    return python, options


@contextmanager
def submitted(
    config: Path, python: Path, hadoop: Hadoop, files: list[str], folder: Path
) -> Iterator[None]:
    """Run the job in cluster mode inside the block; spark-submit waits for the job's end."""
    options = [f"--conf={key}={value}" for key, value in spark_options(python).items()]
    command = [SUBMIT, "--master", "yarn", "--deploy-mode", "cluster", "--files", str(config)]
    with (folder / "submit.log").open("wb") as log:
        submission = subprocess.Popen(
            [*command, *options, *files, "run", "--config", config.name, "--output", "json"],
            # YARN's client hands a PYTHONPATH on, which would name this checkout.
            env={
                **environment_without_settings(),
                "PYTHONPATH": "",
                "SPARK_HOME": str(SPARK_HOME),
                **hadoop.environment,
            },
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        hadoop.end_applications()
        try:
            submission.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            submission.kill()
            submission.wait()
