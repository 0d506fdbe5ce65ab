"""The job's Spark session, and the files that Spark sends to executors."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf
from pyspark.sql import SparkSession

from checkback.checkpoints.spark_files.state_files import CODEC
from checkback.checkpoints.spark_internals import (
    FILE_MANAGER,
    FILE_MANAGER_WITHOUT_LINKS,
    ROCKSDB_STATE,
    jvm_without_session,
)
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings, local_master
from checkback.protocol.errors import ConfigurationError
from checkback.streaming.spark.class_archive import JAVA_OPTIONS, with_archive
from checkback.streaming.spark.cores import spark_key, state_partitions
from checkback.streaming.spark.driver_jvm import launch_driver_jvm, log_path
from checkback.streaming.spark.jars import is_submitted
from checkback.streaming.spark.jvm_options import java_options
from checkback.streaming.spark.s3_files import add_conditional_files, is_on_s3
from checkback.streaming.spark.shipped_package import package_zip

TASKS_PER_CORE: Final = 2
TASK_TRIES: Final = 4
"""Tries of a task. A local Spark gives it only one by default; a fenced producer needs a second."""

JVMS: Final = {
    JAVA_OPTIONS: "spark.driver.memory",
    "spark.executor.extraJavaOptions": "spark.executor.memory",
}
"""Pairs of settings: a JVM's options, and its heap."""

LOG_CONFIGURATION: Final = "log4j2.configurationFile"
JSON_LOG: Final = "classpath:org/apache/spark/log4j2-json-layout.properties"
"""Spark's own file. The setting spark.log.structuredLogging.enabled alone changed nothing in a
driver that pyspark started (4.2.0)."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.memory": "2g",
    # Spark's pages listen on every interface, show environment and plans, and can end the query.
    "spark.ui.enabled": "false",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Every half an hour Spark asks for a collection of the driver's heap, to forget broadcasts
    # that nothing refers to any more. Nearly all are forgotten with their batch.
    "spark.cleaner.periodicGC.interval": "1d",
    # Spark keeps 1,000 jobs, stages and plans for its pages, also where these are off: five minutes
    # of batches, which fill the old half of the heap (docs/decisions/query.md#jvm).
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # The source's options hold the brokers' credentials, and Spark shows options in plans and
    # pages.
    "spark.sql.redaction.options.regex": "(?i)url|password|secret|token|jaas|keystore|truststore",
    # Without it a stop waits for ever for a batch that does not come back.
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "512",
    # Would cost a read per write, for a number that the status of the pages has more exactly.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Without it every batch uploads a whole snapshot of every partition.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Defaults that `spark.*` settings may override."""

REQUIRED: Final[Mapping[str, str]] = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB_STATE,
    # A start and the commands read the state's files themselves.
    CODEC: "lz4",
    # A second attempt beside a running one would fence it, and be fenced itself.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # With this value Spark skips measuring every column of every row (BaseStreamingArrowWriter).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Checkback's files are in the folder before Spark's first one; identity.json guards the folder
    # instead.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
"""Settings that correctness or the design depends on."""


DERIVED: Final = frozenset({"spark.app.name", "spark.sql.shuffle.partitions"})
"""Settings that follow from the pipeline's own."""


def spark_master(settings: Settings) -> str:
    """Return the master, with task retries for a local one that names none.

    ``local[*]`` runs two tasks per core, because a reading task waits for brokers more than half of
    its time. At 1,000 transactions/s on 2 cores a batch took 261 ms instead of 312; under full load
    there is no difference.
    """
    local = local_master(settings.master)
    if local is None or local.tries is not None:
        return settings.master
    on_all_cores = TASKS_PER_CORE * (os.cpu_count() or 1)
    return f"local[{on_all_cores if local.threads is None else local.threads},{TASK_TRIES}]"


def start_session(settings: Settings, jars: list[Path]) -> SparkSession:
    """Start Spark, or return the session that already runs.

    Raises:
        ConfigurationError: spark-submit was given another master than the settings name.
        PrerequisiteError: the JVM did not start.
    """
    is_local = settings.master.startswith("local")
    chosen = session_settings(settings, jars)
    chosen |= {"spark.master": spark_master(settings), "spark.app.name": settings.application_id}
    if is_local:
        use_own_python()
    launch_driver_jvm(chosen, log_path(settings.log_file), settings.log_format)
    if is_submitted():
        chosen |= submitted_settings(settings)
    if is_on_s3(settings.checkpoint):
        add_conditional_files(jvm_without_session(), chosen)
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not is_local:
        spark.sparkContext.addPyFile(str(package_zip()))
    return spark


def use_own_python() -> None:
    """Run the workers of a local master by this process's Python, whatever else was chosen.

    Another one, which a notebook or a profile left in the environment, lacks Checkback's packages.
    On a cluster the variable names the executors' Python.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable


def submitted_settings(settings: Settings) -> dict[str, str]:
    """Return the Spark settings that spark-submit was given and that no setting of Checkback names.

    Raises:
        ConfigurationError: its master is another than that of the settings.
    """
    given = dict(SparkConf().getAll())
    master = given.get("spark.master", settings.master)
    if _kind(master) != _kind(settings.master):  # operators may use another address
        raise ConfigurationError(
            f"spark-submit has the master {master}, and the setting master is {settings.master}.",
            remedy=f'Set master = "{master}" in the configuration file.',
            key="master",
        )
    named = {spark_key(key) for key in settings.spark} | REQUIRED.keys() | DERIVED
    return {key: value for key, value in given.items() if key not in named}


def end_jvm(gateway: Any) -> None:
    """End the JVM of a pyspark gateway by closing its standard input, and wait for its end."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def use_hadoop_file_system(spark: SparkSession, checkpoint: str) -> None:
    """Let Spark write a local checkpoint through Hadoop's older interface by default.

    Hadoop's FileContext runs `readlink` for each file that it renames and for the file's checksum:
    ten processes per file, 40 in an empty batch with two state partitions. FileSystem renames in
    Java and runs only two `chmod`. Readers see a whole file with both; of two writers at the same
    moment FileSystem may let both pass (docs/decisions/query.md#two-drivers).
    """
    is_local = CheckpointStore.of(spark, checkpoint).is_local()
    if is_local and spark.conf.get(FILE_MANAGER, None) is None:
        spark.conf.set(FILE_MANAGER, FILE_MANAGER_WITHOUT_LINKS)


def session_settings(settings: Settings, jars: list[Path]) -> dict[str, str]:
    """Return the Spark settings: defaults, the user's `spark.*`, then the required settings."""
    chosen = dict(DEFAULTS)
    if settings.master.startswith("local"):
        # No other machine has to reach a local Spark.
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Executors elsewhere get Checkback as a zip, which is not there yet when the daemon
        # starts.
        chosen["spark.python.daemon.module"] = "checkback.streaming.spark.python_workers"
    if not settings.master.startswith("yarn"):
        # Over TCP each answer of a worker waits for a delayed acknowledgement: 40 ms, several times
        # per batch. On YARN the path of a container's folder is too long for a Unix socket.
        chosen["spark.python.unix.domain.socket.enabled"] = "true"
    if settings.log_format == "json":
        chosen["spark.log.structuredLogging.enabled"] = "true"
    chosen |= {spark_key(key): value for key, value in settings.spark.items()}
    chosen |= REQUIRED
    chosen["spark.sql.shuffle.partitions"] = str(state_partitions(settings))
    for options, memory in JVMS.items():
        chosen.setdefault(options, java_options(chosen.get(memory, "")))
        if settings.log_format == "json" and LOG_CONFIGURATION not in chosen[options]:
            chosen[options] += f" -D{LOG_CONFIGURATION}={JSON_LOG}"
    chosen[JAVA_OPTIONS] = with_archive(chosen[JAVA_OPTIONS])
    own = chosen.get("spark.jars")
    chosen["spark.jars"] = ",".join([*([own] if own else []), *(str(jar) for jar in jars)])
    return chosen


def _kind(master: str) -> str:
    return master.partition("://")[0].partition("[")[0]
