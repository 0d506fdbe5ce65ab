"""All private places of Spark that Checkback reaches into, each under a name of its own.

Spark has no public way to these, so any release of Spark may move them.
``tests/spark/test_spark_internals.py`` tries each one, and each class that our Java imports, and
names it where it has moved. The formats of Spark's checkpoint files are private too;
``spark_files/`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import Column, SparkSession

_STREAMING: Final = "org.apache.spark.sql.execution.streaming"
MICRO_BATCHES_LOG: Final = _STREAMING
"""The logger of the streaming engine."""
FILE_MANAGER_WITHOUT_LINKS: Final = (
    f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
)
FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""The setting that names the class which writes a checkpoint's files."""
ROCKSDB_STATE: Final = f"{_STREAMING}.state.RocksDBStateStoreProvider"
IDLE_QUERY: Final = "Waiting for next trigger"
"""The message of a query's status between two batches."""


def jvm_of(spark: SparkSession) -> Any:
    """Return py4j's view of a session's JVM."""
    return spark.sparkContext._jvm  # noqa: SLF001


def jvm_without_session() -> Any:
    """Return py4j's view of this process's JVM, in which no session has begun yet."""
    from pyspark import SparkContext

    return SparkContext._jvm  # noqa: SLF001


def gateway_of_process() -> Any:
    """Return pyspark's gateway to the JVM of this process's sessions, None if there is none."""
    from pyspark import SparkContext

    return SparkContext._gateway  # noqa: SLF001


def use_gateway(gateway: Any) -> None:
    """Let later sessions of this process use a JVM that was launched before."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


def new_gateway(conf: SparkConf, output: Mapping[str, Any]) -> Any:
    """Launch a JVM; return pyspark's gateway to it.

    Args:
        conf: of the JVM.
        output: arguments of Popen: where the JVM's output goes.
    """
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway  # it has no types
    return launch(conf, output)


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return the configuration with which a session reaches files."""
    return _java_session(spark).sessionState().newHadoopConf()


def hadoop_configuration_of(jvm: Any, settings: Mapping[str, str]) -> Any:
    """Return the configuration with which a session of these settings would reach files."""
    conf = jvm.org.apache.spark.SparkConf(True)
    for key, value in settings.items():
        conf.set(key, value)
    return jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(conf)


def stream_metadata(jvm: Any) -> Any:
    """Return the class that writes the id of a query into a checkpoint."""
    return jvm.org.apache.spark.sql.execution.streaming.runtime.StreamMetadata


def wake_state_readers(spark: SparkSession) -> None:
    """Prepare a new session to read state.

    A session has no coordinator of the state stores until its manager of queries is asked for.
    """
    _java_session(spark).streams().active()


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Let Spark rewrite the state in a checkpoint into this many partitions.

    Raises:
        Py4JJavaError: Spark refuses.
    """
    manager = spark._streamingCheckpointManager  # noqa: SLF001 - experimental
    manager.repartition(checkpoint, partitions, enforce_exactly_once_sink=True)


def add_jar(spark: SparkSession, jar: Path) -> None:
    """Send a jar to the executors of a session that runs."""
    spark.sparkContext._jsc.sc().addJar(str(jar))  # noqa: SLF001


def set_micro_batches_log(spark: SparkSession, level: str) -> None:
    """Set the level at which the streaming engine logs."""
    log4j = jvm_of(spark).org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(MICRO_BATCHES_LOG, log4j.Level.toLevel(level))


def call_for_rows(
    spark: SparkSession, made: Any, method: str, returned: str, arguments: Sequence[Column]
) -> Column:
    """Return the answers of a Java object that Spark's compiled loop over rows calls.

    It is called once for each row. It is marked nondeterministic: Spark neither repeats nor
    reorders the call.

    Args:
        made: the object; each task has a copy of its own.
        returned: Spark's name of a type; the columns of a row, where it is one. It may be null.
        arguments: of the method, of just the types that it takes.
    """
    from pyspark.sql import Column

    jvm = jvm_of(spark)
    sql, catalyst = jvm.org.apache.spark.sql, jvm.org.apache.spark.sql.catalyst.expressions
    to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    expressions = sql.classic.ExpressionUtils
    called = catalyst.objects.Invoke(
        catalyst.Literal(made, sql.types.ObjectType(made.getClass())),
        method,
        sql.types.DataType.fromDDL(returned),
        to_seq([expressions.expression(_java_column(one)) for one in arguments]),
        to_seq([]),
        False,  # its arguments may be null
        True,  # its answer, too
        False,  # it is not deterministic, as far as Spark has to know
    )
    return Column(expressions.column(called))


def run_worker_daemon(wrapped: Callable[[Any], Any]) -> None:
    """Run the daemon that forks Spark's Python workers, with its worker function wrapped."""
    from pyspark import daemon

    setattr(daemon, "worker", wrapped(daemon.worker))  # noqa: B010 - a typed module
    daemon.manager()


def _java_session(spark: SparkSession) -> Any:
    return spark._jsparkSession  # noqa: SLF001


def _java_column(column: Any) -> Any:
    return column._jc  # noqa: SLF001
