"""Finds the cause of a query's end inside the errors that Spark wraps around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from checkback.protocol import errors
from checkback.protocol.errors import (
    BrokerError,
    CheckbackError,
    CheckpointError,
    ConfigurationError,
    FencedError,
    OperationalError,
    PrerequisiteError,
)
from checkback.streaming.spark.driver_jvm import named

CHECKBACK_ERROR: Final = re.compile(r"checkback\.[a-z_.]+\.(\w+Error): (.+)")
PYTHON_ERROR: Final = re.compile(
    r"^((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .+)$", re.MULTILINE
)
AFTERWARDS: Final = "then start again: the next start continues from the checkpoint."
TWO_JOBS: Final = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently")
"""What Spark says if another query wrote its next file (MicroBatchExecution 4.2.0)."""
DISK: Final = ("No space left on device", "Disk quota exceeded", "Read-only file system")
STATE: Final = ("CANNOT_LOAD_STATE_STORE", "FAILED_TO_READ_STATE_SCHEMA")
TOPIC_GONE: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
NO_ANSWER: Final = "org.apache.kafka.common.errors.TimeoutException"
TIME_UNREADABLE: Final = re.compile(
    r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value"
)
"""Of Spark's KAFKA_MALFORMED_RECORD_TIMESTAMP."""
JAVA_SETTING: Final = re.compile(
    r"org\.apache\.kafka\.common\.config\.ConfigException: (.*configuration (\S+?)[:.]? .*)"
)
"""Of Kafka's Java client, which reads some of librdkafka's settings differently."""
UNREAD_GONE: Final = re.compile(
    r"Reason: ((?:Could not read records|Starting offset).*?)\.?(?: SQLSTATE: \w+)?$", re.MULTILINE
)
"""Of Spark's KAFKA_DATA_LOSS, where the topic is still there."""
READ_GONE: Final = re.compile(r"Reason: (Partition \S+ offset was changed from \d+ to \d+)")
"""The same where a partition ends before what was read: Spark may notice it first."""
JAVA_ERROR: Final = re.compile(r"\bjava\.lang\.(?:\w+\.)*\w+Error\b(?:: [^\n]+)?")
CAUSED_BY: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
LOST_TASK: Final = re.compile(r"Lost task [^\n]*?executor \w+\): ([^\n]+)")
NOT_EXECUTABLE: Final = "failed to map segment from shared object"
"""What the system's loader says of a library in a folder that is mounted noexec."""
WRAPPERS: Final = ("py4j.", "pyspark.", "java.", "org.apache.")
TEXT_MAX: Final = 2_000
LOG_END_BYTES: Final = 65_536
"""Where the JVM's last words are, in its log."""


BatchFunction = Callable[[DataFrame, int], None]


def raising_exceptions(write_batch: BatchFunction) -> BatchFunction:
    """Return a batch function that raises nothing but an Exception.

    Spark's JVM calls it by py4j. Any other exception ends py4j's thread without an answer, and the
    query would hang for ever. Libraries in Rust panic with a BaseException.
    """

    def write(outcomes: DataFrame, batch_id: int) -> None:
        try:
            write_batch(outcomes, batch_id)
        except Exception:
            raise
        except BaseException as error:
            said = " ".join(str(error).split())[:TEXT_MAX]
            raise OperationalError(
                f"Batch {batch_id} ended by {type(error).__name__}: {said or 'no reason given'}",
                remedy="The next start continues from the checkpoint.",
            ) from error

    return write


@contextmanager
def jvm_watched(log: Path | None) -> Iterator[None]:
    """Raise the end of Spark's JVM in place of the failed call that follows it.

    Args:
        log: the file with the JVM's output, None for standard error. It says why, so it is kept.

    Raises:
        OperationalError: the JVM ended.
    """
    try:
        yield
    except (Py4JNetworkError, ConnectionRefusedError) as error:
        last = _last_error_in(log)
        found = OperationalError(
            "Spark's JVM ended." if last is None else f"Spark's JVM ended by {last}.",
            remedy="Check whether the system ran out of memory (spark.driver.memory is the JVM's). "
            "The next start continues from the checkpoint.",
        )
        raise _with_log(found, log) from error


def _last_error_in(log: Path | None) -> str | None:
    """Return the last error that the JVM wrote before it ended; None where it told none."""
    if log is None:
        return None
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_END_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    found = JAVA_ERROR.findall(text)
    return found[-1][:TEXT_MAX].rstrip(". ") if found else None


def explain(failure: StreamingQueryException | None, log: Path | None = None) -> CheckbackError:
    """Return the error to end with: Checkback's own if a task raised one, else a short cause.

    Spark wraps an error from a task or from Python several times. The cause is the last error in
    the text that is not a wrapper.

    Args:
        log: the file with Spark's traces, None for standard error.
    """
    return _with_log(_explained(failure), log)


def _with_log(found: CheckbackError, log: Path | None) -> CheckbackError:
    if log is not None:
        found.fields["log_file"] = named(log)
        found.remedy = f"{found.remedy} Spark's traces are in {log}.".strip()
    return found


def _explained(failure: StreamingQueryException | None) -> CheckbackError:
    text = _whole_text(failure)
    found = CHECKBACK_ERROR.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, OperationalError)
        return kind(message.strip()) if issubclass(kind, CheckbackError) else _ended(message, text)
    known = _known(text)
    if known is not None:
        return known
    return _ended(_cause_in(text), text)


def _whole_text(failure: StreamingQueryException | None) -> str:
    """Return Spark's message with the traces of its Java causes."""
    if failure is None:
        return ""
    java_traces = getattr(getattr(failure, "_cause", None), "_stackTrace", None)
    return f"{failure}\n{java_traces}" if java_traces else str(failure)


def _cause_in(text: str) -> str:
    """Return the most telling line: of Python, of a JVM error, of any exception."""
    of_python = PYTHON_ERROR.findall(text)
    causes = [one for one in of_python if not one.startswith(WRAPPERS)]
    causes = causes or JAVA_ERROR.findall(text) or CAUSED_BY.findall(text)
    causes = causes or LOST_TASK.findall(text)
    causes = causes or [one for one in of_python if not one.startswith("py4j.")]
    lines = [line for line in text.splitlines() if line.strip()]
    return (causes[-1:] or lines[:1] or ["no reason given"])[0]


def _known(text: str) -> CheckbackError | None:
    """Return the error for known messages of Spark, Kafka's clients or the disk."""
    detail = text[:TEXT_MAX]
    if any(sign in text for sign in TWO_JOBS):
        return FencedError(
            "Another job has taken over this checkpoint: it planned the same batch.",
            remedy="Run only one job; see `checkback docs bad-days`.",
            detail=detail,
        )
    full = next((sign for sign in DISK if sign in text), None)
    if full is not None:
        return PrerequisiteError(
            f"The checkpoint, or Spark's local folder, can't be written: {full}.",
            remedy=f"Free some space, {AFTERWARDS}",
            detail=detail,
        )
    if NOT_EXECUTABLE in text:
        return PrerequisiteError(
            "Java can't load libraries from its temporary folder, which is mounted noexec.",
            remedy="Name another one in the environment, JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=FOLDER,"
            f" {AFTERWARDS}",
            detail=detail,
        )
    return _state_unread(text) if any(sign in text for sign in STATE) else _known_of_kafka(text)


def _known_of_kafka(text: str) -> CheckbackError | None:
    detail = text[:TEXT_MAX]
    wrong = JAVA_SETTING.search(text)
    if wrong is not None:
        return ConfigurationError(
            f"Kafka's Java client rejects a setting: {wrong[1].rstrip('.')}.",
            remedy=f"Correct kafka.{wrong[2]}; both librdkafka and the Java client read it.",
            key=f"kafka.{wrong[2]}",
        )
    late = TIME_UNREADABLE.search(text)
    if late is not None:
        topic, partition, offset = late.groups()
        return BrokerError(
            f"The record at {topic}-{partition}, offset {offset}, has a time that Spark can't "
            "read: the topic keeps the time of the sender.",
            remedy="Set message.timestamp.type of the topic to LogAppendTime; for that record "
            "see `checkback docs bad-days`.",
            detail=detail,
        )
    gone = UNREAD_GONE.search(text)
    if gone is not None:
        return CheckpointError(
            f"Records that the job had not read are gone from their topic: {gone[1]}.",
            remedy="Run `checkback checkpoint rebuild --from-topics`, which goes on with those "
            "that are left; see `checkback docs bad-days`.",
            detail=detail,
        )
    cut = READ_GONE.search(text)
    if cut is not None:
        return CheckpointError(
            f"Records that the job had read are gone from their topic: {cut[1]}.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs bad-days`.",
            detail=detail,
        )
    if TOPIC_GONE in text:
        return BrokerError(
            "A topic that the job reads, or a partition of it, is gone.",
            remedy="Read `checkback docs bad-days` before you change anything.",
            detail=detail,
        )
    if NO_ANSWER in text:
        return BrokerError(
            "The brokers did not answer for minutes.",
            remedy=f"Wait until they answer, {AFTERWARDS}",
            detail=detail,
        )
    return None


def _state_unread(text: str) -> OperationalError:
    sign = next((line for line in text.splitlines() if any(one in line for one in STATE)), text)
    return OperationalError(
        f"The state in the checkpoint can't be read: {sign.strip()[:TEXT_MAX]}",
        remedy="Run `checkback checkpoint verify`, which names a file that is damaged. If there is "
        "none, the file system failed for a moment, and the next start goes on.",
        detail=text[:TEXT_MAX],
    )


def _ended(cause: str, text: str) -> OperationalError:
    return OperationalError(
        f"The query ended: {cause.strip()[:TEXT_MAX]}",
        remedy="The next start continues from the checkpoint.",
        detail=text[:TEXT_MAX],
    )
