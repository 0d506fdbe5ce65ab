"""How Spark is set up, and what is said when a query ends."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from checkback.checkpoints.spark_internals import FILE_MANAGER, FILE_MANAGER_WITHOUT_LINKS
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    BrokerError,
    CheckbackError,
    CheckpointError,
    OperationalError,
    PrerequisiteError,
)
from checkback.streaming.job.query_failure import explain
from checkback.streaming.spark import session
from checkback.streaming.spark.cores import executor_cores, state_partitions
from checkback.streaming.spark.jvm_options import COLLECTOR, YOUNG, java_options
from checkback.streaming.spark.session import (
    JSON_LOG,
    LOG_CONFIGURATION,
    session_settings,
    spark_master,
    use_hadoop_file_system,
)
from checkback.streaming.spark.shipped_package import package_folders, package_zip


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[6,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local[*, 1]", "local[*, 1]"),
        ("spark://h:1", "spark://h:1"),
        ("local-cluster[1,1,1]", "local-cluster[1,1,1]"),
    ],
)
def test_a_local_master_gets_task_retries_unless_it_names_its_own(
    master: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)

    assert spark_master(Settings(master=master)) == expected


@pytest.mark.parametrize(
    ("master", "spark", "cores"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[3,4]", {"spark.executor.cores": "9"}, 3),
        ("local[*]", {}, None),
        ("yarn", {}, 1),
        ("k8s://https://h:1", {"executor.cores": "4"}, 4),
        ("spark://h:1", {"spark.executor.cores": "2"}, 2),
        ("spark://h:1", {}, None),
    ],
)
def test_the_cores_of_an_executor_are_those_it_is_given(
    master: str, spark: dict[str, str], cores: int | None
) -> None:
    assert executor_cores(Settings(master=master, spark=spark)) == cores


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", 1), ("local[3]", 3), ("local[3, 1]", 3), ("local[*]", 7), ("spark://h:1", 7)],
)
def test_state_partitions_are_the_threads_of_a_local_master_unless_set(
    master: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)

    assert state_partitions(Settings(master=master)) == expected
    assert state_partitions(Settings(master=master, state_partitions=5)) == 5


@pytest.mark.parametrize(
    ("memory", "heap"),
    [("2g", "-Xms2g"), ("900MB", "-Xms900m"), ("1024", "-Xms1024m"), ("", ""), ("lots", "")],
)
def test_a_jvm_has_its_whole_heap_from_the_start_where_its_size_is_known(
    memory: str, heap: str
) -> None:
    """Its young half has fixed sizes then: survivor spaces that shrank filled the old half."""
    own = [heap, *YOUNG] if heap else []
    assert java_options(memory) == " ".join([*COLLECTOR, *own])


DRIVER, EXECUTOR = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"
SOCKETS = "spark.python.unix.domain.socket.enabled"
OWN_LOG = f"-D{LOG_CONFIGURATION}=/etc/log4j2.properties"


def test_a_jvm_is_told_about_its_memory_and_its_log_unless_its_options_are_the_users() -> None:
    plain = session_settings(Settings(), [])
    told = session_settings(
        Settings(log_format="json", spark={"driver.memory": "3g", "executor.memory": "5g"}), []
    )
    own = session_settings(Settings(log_format="json", spark={EXECUTOR: OWN_LOG}), [])

    # What spark-defaults.conf says of executors is not known here.
    assert "-Xms" not in plain[EXECUTOR]
    assert LOG_CONFIGURATION not in plain[DRIVER] + plain[EXECUTOR]
    assert "-Xms3g" in told[DRIVER]
    assert "-Xms5g" in told[EXECUTOR]
    assert all(f"-D{LOG_CONFIGURATION}={JSON_LOG}" in told[one] for one in (DRIVER, EXECUTOR))
    assert own[EXECUTOR] == OWN_LOG


def test_the_user_may_change_defaults_but_not_what_correctness_rests_on() -> None:
    own = {
        "driver.memory": "9g",
        "spark.speculation": "true",
        "spark.sql.shuffle.partitions": "200",
        "spark.jars": "mine.jar",
    }

    chosen = session_settings(Settings(state_partitions=2, spark=own), [Path("source.jar")])

    assert chosen["spark.driver.memory"] == "9g"
    assert chosen["spark.speculation"] == "false"
    assert chosen["spark.sql.shuffle.partitions"] == "2"
    assert chosen["spark.jars"] == "mine.jar,source.jar"


def test_what_depends_on_the_master() -> None:
    """Only a local Spark is bound to loopback; paths of Yarn's are too long for Unix sockets."""
    local, other, yarn = (
        session_settings(Settings(master=master), []) for master in ("local", "spark://h:1", "yarn")
    )

    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in other
    assert local[SOCKETS] == other[SOCKETS] == "true"
    assert SOCKETS not in yarn
    assert session_settings(Settings(spark={SOCKETS: "false"}), [])[SOCKETS] == "false"


@pytest.fixture
def file_manager(spark: SparkSession) -> Iterator[Callable[[], str | None]]:
    """Reads which class writes checkpoints; the setting is gone again after the test."""
    yield lambda: spark.conf.get(FILE_MANAGER, None)
    spark.conf.unset(FILE_MANAGER)


def test_a_local_checkpoint_is_written_without_asking_for_links_unless_the_user_chose(
    spark: SparkSession, tmp_path: Path, file_manager: Callable[[], str | None]
) -> None:
    use_hadoop_file_system(spark, "hdfs://127.0.0.1:1/checkpoint")
    assert file_manager() is None

    use_hadoop_file_system(spark, str(tmp_path / "checkpoint"))
    found = file_manager()
    assert found == FILE_MANAGER_WITHOUT_LINKS
    assert spark.sparkContext._jvm.java.lang.Class.forName(found)  # type: ignore[union-attr]

    spark.conf.set(FILE_MANAGER, "mine")
    use_hadoop_file_system(spark, str(tmp_path))
    assert file_manager() == "mine"


def test_the_package_zip_holds_every_package_under_its_import_name(tmp_path: Path) -> None:
    path = package_zip(tmp_path)

    names = set(zipfile.ZipFile(path).namelist())
    for package, folder in package_folders().items():
        for module in folder.glob("*.py"):
            assert f"{package.replace('.', '/')}/{module.name}" in names
    assert {"checkback/__init__.py", "checkback/state/page/page.py"} <= names
    assert not [name for name in names if name.endswith(".pyc")]


PROXY = (
    "[STREAM_FAILED] An exception was raised by the Python Proxy. Return Message: "
    'Traceback (most recent call last):\n  File "job.py", line 1\n'
)
FROM_JAVA = "py4j.protocol.Py4JJavaError: An error occurred while calling o9.collectToPython.\n: "
GONE = "The marker of state partition 0 is gone."
OTHER_PYTHON = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9"


def explained(said: str) -> CheckbackError:
    return explain(StreamingQueryException(said))


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        pytest.param(
            f"Job aborted\n  File\nx\ncheckback.protocol.errors.CheckpointError: {GONE}\n\tat",
            CheckpointError, GONE,
            id="our own error",
        ),
        pytest.param(
            "Connection lost\nlong\nstack",
            OperationalError, "The query ended: Connection lost",
            id="one line",
        ),
        pytest.param(
            f"{PROXY}ValueError: the true cause\n\npy4j.protocol.Py4JError: wrapped\n\tat x",
            OperationalError, "The query ended: ValueError: the true cause",
            id="behind wrappers",
        ),
        pytest.param(
            f"{PROXY}pyspark.errors.exceptions.base.PySparkRuntimeError: {OTHER_PYTHON}\n",
            OperationalError, OTHER_PYTHON,
            id="another Python",
        ),
        *(
            pytest.param(
                f"{PROXY}{FROM_JAVA}{behind}{named}\n\tat java.base/x",
                OperationalError, f"The query ended: {named}",
                id=named,
            )
            for behind, named in (
                ("org.apache.spark.SparkException: (TID 9): ", "java.lang.NoClassDefFoundError: X"),
                ("", "java.lang.StackOverflowError"),
                ("x\nCaused by: ", "java.io.IOException: Broken pipe"),
                ("x: Lost task 0.3 (TID 9) (h executor 1): ", "java.io.IOException: y"),
            )
        ),
        (
            "[X] Record at topic half partition 0 offset 7 has timestamp value 9 that is too large",
            BrokerError, "The record at half-0, offset 7, has a time that Spark can't read",
        ),
    ],
)  # fmt: skip
def test_the_end_of_a_query_is_told_in_one_line_by_its_cause(
    said: str, kind: type[OperationalError], message: str
) -> None:
    told = explained(said)

    assert type(told) is kind
    assert message in told.message
    assert "\n" not in told.message


@pytest.mark.parametrize(
    "reason",
    [
        (
            "Could not read records in offset [5, 15) for topic partition half-0\n"
            "with consumer group spark-kafka-source-1."
        ),
        "Starting offset for half-0 was 5 but consumer reset to 10.",
    ],
)
def test_records_that_are_gone_unread_are_told_with_what_to_do(reason: str) -> None:
    told = explained(
        f"{FROM_JAVA}org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have "
        "been lost because they are not available in Kafka any more;\n"
        "If you don't want your streaming query to fail on such cases, set the source option "
        f"failOnDataLoss to false.\nReason: {reason} SQLSTATE: 22000\n\tat java.base/x"
    )

    assert told.exit_code == 4
    assert "half-0" in told.message
    assert "SQLSTATE" not in told.message
    assert "rebuild --from-topics" in told.remedy
    assert "failOnDataLoss" not in f"{told.message} {told.remedy}"


def test_records_that_were_read_and_are_gone_lead_to_a_rebuild_whoever_notices_it() -> None:
    """Where Spark was quicker than the job's own look, the job ended with 3."""
    told = explained(
        f"{FROM_JAVA}org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have "
        "been lost\nReason: Partition half-0 offset was changed from 6 to 3.\nThis could be either"
    )

    assert told.exit_code == 4
    assert "half-0 offset was changed from 6 to 3" in told.message
    assert "checkpoint rebuild`" in told.remedy


def test_a_state_that_can_t_be_read_is_told_with_the_command_that_names_the_file() -> None:
    said = (
        "Job aborted due to stage failure\norg.apache.spark.SparkException: "
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."
    )

    told = explained(said)

    assert told.exit_code == 3
    assert "CANNOT_LOAD_STATE_STORE" in told.message
    assert "checkpoint verify" in told.remedy
    full = explained(f"{said} No space left on device")
    assert "Free some space" in full.remedy


def test_a_setting_that_only_the_java_client_rejects_is_named() -> None:
    told = explained(
        "[STREAM_FAILED] Failed to construct kafka consumer\n\tat java.base/x\nCaused by: "
        "org.apache.kafka.common.config.ConfigException: Invalid value 1 for configuration "
        "check.crcs: Expected value to be either true or false\n\tat java.base/x"
    )

    assert (told.exit_code, told.fields["key"]) == (2, "kafka.check.crcs")
    assert "Expected value to be either true or false" in told.message


def test_an_error_in_spark_itself_is_named_by_the_java_exception_behind_it() -> None:
    """Of that the exception's own text has only the message."""
    failure: Any = StreamingQueryException("[STREAM_FAILED] Query ended with exception: null")
    failure._cause = SimpleNamespace(_stackTrace="java.lang.StackOverflowError\n\tat x")

    assert explain(failure).message == "The query ended: java.lang.StackOverflowError"


def test_a_temporary_folder_that_runs_nothing_is_named() -> None:
    told = explained(
        "[STREAM_FAILED] An exception was raised by the Python Proxy.\n: java.lang."
        "UnsatisfiedLinkError: /tmp/librocksdbjni8.so: /tmp/librocksdbjni8.so: failed to map "
        "segment from shared object: Operation not permitted"
    )

    assert isinstance(told, PrerequisiteError)
    assert "noexec" in told.message
    assert "java.io.tmpdir" in told.remedy


def test_a_python_left_in_the_environment_runs_no_worker_of_a_local_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python2")
    monkeypatch.setattr(session, "launch_driver_jvm", _stop)

    for master, python in (("local[2]", sys.executable), ("spark://h:1", "/usr/bin/python2")):
        os.environ["PYSPARK_PYTHON"] = "/usr/bin/python2"
        with pytest.raises(InterruptedError):
            session.start_session(Settings(master=master), [])
        assert os.environ["PYSPARK_PYTHON"] == python


def _stop(*_: object) -> None:
    raise InterruptedError
