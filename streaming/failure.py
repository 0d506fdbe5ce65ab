"""Why the query ended: the cause out of what Spark wraps around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException

from checkback.protocol import errors
from checkback.protocol.errors import (
    BrokerError,
    CheckbackError,
    FencedError,
    OperationalError,
    PrerequisiteError,
)

OUR_ERROR: Final = re.compile(r"checkback\.[a-z_.]+\.(\w+Error): (.+)")
PYTHON_ERROR: Final = re.compile(
    r"^((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .+)$", re.MULTILINE
)
AFTERWARDS: Final = "then start again: the next start continues from the checkpoint."
TWO_JOBS: Final = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently")
"""What Spark says when another query has written its next file (MicroBatchExecution 4.2.0)."""
DISK: Final = ("No space left on device", "Disk quota exceeded", "Read-only file system")
TOPIC_GONE: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
NO_ANSWER: Final = "org.apache.kafka.common.errors.TimeoutException"
WRAPPERS: Final = ("py4j.", "pyspark.", "java.", "org.apache.")
TEXT_MAX: Final = 2_000


@contextmanager
def jvm_watched() -> Iterator[None]:
    """Tell when Spark's JVM ended beneath the driver, instead of how the next call to it failed.

    Raises:
        OperationalError: it is gone.
    """
    try:
        yield
    except (Py4JNetworkError, ConnectionRefusedError) as error:
        raise OperationalError(
            "Spark's JVM ended.",
            remedy="Look whether the system was out of memory (spark.driver.memory is the JVM's). "
            "The next start continues from the checkpoint.",
        ) from error


def explain(failure: StreamingQueryException | None) -> CheckbackError:
    """Return the error to end with: our own if a task raised one, else the cause in short.

    Spark wraps what went wrong in a task or in Python several times over; the cause is the last
    error in its text that is not one of the wrappers.
    """
    text = "" if failure is None else str(failure)
    found = OUR_ERROR.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, OperationalError)
        return kind(message.strip()) if issubclass(kind, CheckbackError) else _ended(message, text)
    known = _known(text)
    if known is not None:
        return known
    causes = [one for one in PYTHON_ERROR.findall(text) if not one.startswith(WRAPPERS)]
    lines = [line for line in text.splitlines() if line.strip()]
    return _ended((causes[-1:] or lines[:1] or ["no reason given"])[0], text)


def _known(text: str) -> CheckbackError | None:
    """Return the error for what Spark, Kafka's clients or the disk say in words of their own."""
    detail = text[:TEXT_MAX]
    if any(sign in text for sign in TWO_JOBS):
        return FencedError(
            "Another job has taken over this checkpoint: it planned a batch that this one was at.",
            remedy="Let only one run; see docs/operating/bad-days.md.",
            detail=detail,
        )
    full = next((sign for sign in DISK if sign in text), None)
    if full is not None:
        return PrerequisiteError(
            f"The checkpoint, or Spark's local folder, can't be written: {full}.",
            remedy=f"Make room, {AFTERWARDS}",
            detail=detail,
        )
    if TOPIC_GONE in text:
        return BrokerError(
            "A topic that the job reads, or a partition of it, is gone.",
            remedy="Change nothing before reading docs/operating/bad-days.md.",
            detail=detail,
        )
    if NO_ANSWER in text:
        return BrokerError(
            "The brokers did not answer for minutes.",
            remedy=f"Wait until they do, {AFTERWARDS}",
            detail=detail,
        )
    return None


def _ended(cause: str, text: str) -> OperationalError:
    return OperationalError(
        f"The query ended: {cause.strip()[:TEXT_MAX]}",
        remedy="The next start continues from the checkpoint.",
        detail=text[:TEXT_MAX],
    )
