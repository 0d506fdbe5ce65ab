"""The Spark session that the job needs, and what executors have to be given."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from checkback.checkpoints.folder import CheckpointFolder
from checkback.deploy.class_archive import JAVA_OPTIONS, with_archive
from checkback.protocol.configuration import Settings
from checkback.streaming.jvm_options import java_options
from checkback.streaming.package import package_zip

LOCAL_MASTER: Final = re.compile(r"local(\[[^,\]]*\])?")
FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGER_WITHOUT_LINKS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
TASKS_PER_CORE: Final = 2
TASK_TRIES: Final = 4
"""A local Spark gives a task one try unless told otherwise; a fenced producer needs a second."""

JVMS: Final = {
    JAVA_OPTIONS: "spark.driver.memory",
    "spark.executor.extraJavaOptions": "spark.executor.memory",
}
"""The settings of a JVM's options, and of how much heap it has."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.driver.memory": "2g",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The source's options hold the brokers' credentials; plans and pages show options.
    "spark.sql.redaction.options.regex": "(?i)url|password|secret|token|jaas|keystore|truststore",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "512",
    # An extra read for every write, for a number that our own status has more exactly.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Without it every batch uploads a whole snapshot of every partition.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""What `spark.*` settings may override."""

REQUIRED: Final[Mapping[str, str]] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A second attempt of a task beside a running one would fence it, and be fenced.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # Measuring every column for every row is short-cut at this value (BaseStreamingArrowWriter).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Our own files lie in the folder before Spark's first; checkpoints.identity guards it instead.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
"""What correctness or the design rests on."""


def state_partitions(settings: Settings) -> int:
    """Return the number of state partitions: as set, else the cores of a local master."""
    found = re.match(r"local\[(\d+)", settings.master)
    cores = int(found.group(1)) if found else os.cpu_count() or 1
    return settings.state_partitions_on(cores)


def spark_master(settings: Settings) -> str:
    """Return the master, with task retries for a local one that names none.

    On all cores of a machine twice as many tasks run at once: one that reads waits for brokers more
    than half of its time. At 1,000 transactions/s on 2 cores a batch took 261 ms instead of 312;
    under full load it makes no difference.
    """
    if LOCAL_MASTER.fullmatch(settings.master) is None:
        return settings.master
    tasks = settings.master.removeprefix("local").strip("[]") or "1"
    if tasks == "*":
        tasks = str(TASKS_PER_CORE * (os.cpu_count() or 1))
    return f"local[{tasks},{TASK_TRIES}]"


def start_session(settings: Settings, jars: list[Path]) -> SparkSession:
    """Start Spark, or take the session that runs already.

    Args:
        settings: master, `spark.*` and the state partitions.
        jars: Kafka source and Delta; Spark hands them to executors.
    """
    # On a cluster the workers' own python is right unless the caller says otherwise.
    is_local = settings.master.startswith("local")
    if is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(spark_master(settings)).appName(settings.application_id)
    for key, value in session_settings(settings, jars).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not is_local:
        spark.sparkContext.addPyFile(str(package_zip()))
    return spark


def end_jvm(gateway: Any, timeout_s: float | None = None) -> None:
    """Have the JVM behind a gateway of pyspark's end as when nobody needs it, and wait for that."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout_s)


def spare_processes(spark: SparkSession, folder: CheckpointFolder) -> None:
    """Have Spark write a local checkpoint by Hadoop's older interface, unless told otherwise.

    Its FileContext asks of each file that it renames, and of that file's checksum, whether it is a
    link, by running `readlink`: ten processes for a file, 40 in an empty batch with two state
    partitions. FileSystem renames in Java, as atomically, and is left with two `chmod`.
    """
    if folder.is_local() and spark.conf.get(FILE_MANAGER, None) is None:
        spark.conf.set(FILE_MANAGER, FILE_MANAGER_WITHOUT_LINKS)


def session_settings(settings: Settings, jars: list[Path]) -> dict[str, str]:
    """Return the Spark settings: our defaults, the user's `spark.*`, then what must be."""
    chosen = dict(DEFAULTS)
    if settings.master.startswith("local"):
        # Nobody outside has to reach a local Spark.
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Executors elsewhere have our package in a zip, which is not there yet when this starts.
        chosen["spark.python.daemon.module"] = "checkback.streaming.worker_daemon"
    if not settings.master.startswith("yarn"):
        # By TCP each answer of a worker waits for a delayed acknowledgement: 40 ms, several times
        # in a batch. On YARN the path of a container's folder is too long for such a socket.
        chosen["spark.python.unix.domain.socket.enabled"] = "true"
    chosen |= {_with_prefix(key): value for key, value in settings.spark.items()}
    chosen |= REQUIRED
    chosen["spark.sql.shuffle.partitions"] = str(state_partitions(settings))
    for options, memory in JVMS.items():
        chosen.setdefault(options, java_options(chosen.get(memory, "")))
    chosen[JAVA_OPTIONS] = with_archive(chosen[JAVA_OPTIONS])
    own = chosen.get("spark.jars")
    chosen["spark.jars"] = ",".join([*([own] if own else []), *(str(jar) for jar in jars)])
    return chosen


def _with_prefix(key: str) -> str:
    return key if key.startswith("spark.") else f"spark.{key}"
