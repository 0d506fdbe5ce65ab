"""Each private place of Spark is where checkpoints/spark_internals.py says that it is.

With another release of Spark, each of these names what has moved.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from checkback.checkpoints import spark_internals as internals
from checkback.testing import wait_until

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(
    r"\._(jvm|jsc|jc|jdf|jsparkSession|gateway|ensure_initialized|streamingCheckpointManager)\b"
    r"|\.org\.apache\.(spark|logging)\b|java_gateway import launch|\bdaemon\.manager\("
)
IMPORTED = {
    name
    for source in (ROOT / "streaming" / "java").glob("*.java")
    for name in re.findall(r"\borg\.apache\.spark(?:\.[a-z]\w*)+\.[A-Z]\w*", source.read_text())
}
"""Classes of Spark that Checkback's Java names."""
assert IMPORTED


@pytest.mark.parametrize("name", sorted({*IMPORTED, internals.ROCKSDB_STATE}))
def test_a_class_is_there(spark: SparkSession, name: str) -> None:
    assert internals.jvm_of(spark).java.lang.Class.forName(name).getName() == name


@pytest.mark.parametrize(
    "name",
    [  # Spark's documents do not have them.
        "spark.python.daemon.module",
        "spark.sql.execution.arrow.maxBytesPerBatch",
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart",
    ],
)
def test_a_setting_is_known_to_spark(spark: SparkSession, name: str) -> None:
    jvm = internals.jvm_of(spark)
    for kind in ("SQLConf", "StaticSQLConf"):  # an entry is known once its class is loaded
        jvm.java.lang.Class.forName(f"org.apache.spark.sql.internal.{kind}$")

    assert jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(name) is not None


def test_the_setting_for_the_class_that_writes_checkpoints(spark: SparkSession) -> None:
    sql_conf = getattr(internals.jvm_of(spark).org.apache.spark.sql.internal, "SQLConf$")
    entry = getattr(sql_conf, "MODULE$").STREAMING_CHECKPOINT_FILE_MANAGER_CLASS()

    assert entry.parent().key() == internals.FILE_MANAGER


def test_no_other_file_reaches_into_spark() -> None:
    packages = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "tools"}
    files = [path for folder in packages for path in folder.rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in files if PRIVATE.search(path.read_text())]

    assert found == ["checkpoints/spark_internals.py"]


def test_the_gateway_of_this_process(spark: SparkSession) -> None:
    gateway = internals.gateway_of_process()

    assert gateway.jvm.java.lang.System.getProperty("java.version")
    internals.use_gateway(gateway)
    assert internals.gateway_of_process() is gateway
    assert internals.jvm_without_session().java.lang.System


def test_a_jvm_is_launched_with_settings_and_a_place_for_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    started = lambda command, **more: given.extend([command, more])  # noqa: E731
    monkeypatch.setattr("pyspark.java_gateway.Popen", started)
    with pytest.raises(AttributeError):  # there is no process to wait for
        internals.new_gateway(
            SparkConf(loadDefaults=False).set("spark.driver.memory", "99m"), {"stdout": -3}
        )

    assert "spark.driver.memory=99m" in given[0]
    assert given[1]["stdout"] == -3


def test_hadoop_s_settings_with_a_session_and_without(spark: SparkSession) -> None:
    jvm = internals.jvm_of(spark)
    without = internals.hadoop_configuration_of(jvm, {"spark.hadoop.fs.mine": "here"})

    assert internals.hadoop_configuration(spark).get("fs.defaultFS")
    assert without.get("fs.mine") == "here"


def test_the_id_of_a_query_is_written_by(spark: SparkSession) -> None:
    made = internals.stream_metadata(internals.jvm_of(spark))("0-1")

    assert made.id() == "0-1"


def test_state_readers_are_woken(spark: SparkSession) -> None:
    internals.wake_state_readers(spark)

    environment = internals.jvm_of(spark).org.apache.spark.SparkEnv.get()
    assert "StateStoreCoordinator" in str(
        environment.rpcEnv().setupEndpointRef(
            environment.rpcEnv().address(), "StateStoreCoordinator"
        )
    )


def test_spark_has_a_manager_that_repartitions_state(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="checkpoint") as refused:
        internals.repartition_state(spark, "/nowhere/checkpoint", 2)
    assert not isinstance(refused.value, AttributeError | TypeError)


def test_a_jar_is_sent_to_executors(spark: SparkSession, tmp_path: Path) -> None:
    jar = tmp_path / "empty-of-test.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))

    internals.add_jar(spark, jar)

    context = internals.jvm_of(spark).org.apache.spark.SparkContext.getOrCreate()
    assert jar.name in str(context.listJars())


def test_the_log_of_micro_batches_has_a_level(spark: SparkSession) -> None:
    internals.set_micro_batches_log(spark, "OFF")
    log4j = internals.jvm_of(spark).org.apache.logging.log4j
    logger = log4j.LogManager.getLogger(f"{internals.MICRO_BATCHES_LOG}.runtime.Anything")
    assert str(logger.getLevel()) == "OFF"

    internals.set_micro_batches_log(spark, "ERROR")
    assert str(logger.getLevel()) == "ERROR"


def test_a_java_object_is_called_for_each_row(spark: SparkSession) -> None:
    rows = spark.range(3).selectExpr("cast(id as int) as number")
    text = internals.jvm_of(spark).java.lang.StringBuilder("abc")
    column = internals.call_for_rows(spark, text, "codePointAt", "int", [rows.number])

    assert [one[0] for one in rows.select(column).collect()] == [97, 98, 99]


def test_an_idle_query_says_so(spark: SparkSession, tmp_path: Path) -> None:
    query = (
        spark.readStream.format("rate").load()
        .writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="1 hour").start()
    )  # fmt: skip
    try:
        wait_until(lambda: query.status["message"] == internals.IDLE_QUERY, what="an idle query")
    finally:
        query.stop()


def test_the_daemon_of_python_workers_has_a_worker_to_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import daemon

    given, ran = list[Any](), list[str]()
    monkeypatch.setattr(daemon, "worker", daemon.worker)  # to be put back
    before = daemon.worker
    monkeypatch.setattr(daemon, "manager", lambda: ran.append("manager"))

    def wrapped(worker: Any) -> Any:
        given.append(worker)
        return wrapped

    internals.run_worker_daemon(wrapped)

    assert (given, ran) == ([before], ["manager"])
    assert vars(daemon)["worker"] is wrapped
