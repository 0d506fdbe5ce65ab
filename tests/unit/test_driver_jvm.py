"""The driver's JVM: one that does not start or ends, and py4j's debug lines, which hold secrets."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from checkback.protocol.errors import OperationalError
from checkback.streaming.job.query_failure import LOG_END_BYTES, jvm_watched
from checkback.streaming.spark.driver_jvm import (
    _FILTER,
    COMMAND_LOGGERS,
    _start_error,
    log_path,
    without_commands,
)


def test_a_user_without_a_name_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number: Spark's trace spoke of a folder `?/.ivy2`."""
    assert "/etc/passwd" not in _start_error(None).remedy
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_123)

    assert "4000000123 has no line in /etc/passwd" in _start_error(None).remedy


@pytest.mark.parametrize("raised", [Py4JNetworkError(), ConnectionRefusedError()])
def test_the_output_of_a_jvm_that_ended_is_named(raised: Exception, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"

    with pytest.raises(OperationalError) as told, jvm_watched(log):
        raise raised

    assert told.value.fields["log_file"] == str(log)
    assert str(log) in told.value.remedy


OUT_OF_MEMORY = "java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (f"Exception in thread main {OUT_OF_MEMORY}\n\tat X\n", f"JVM ended by {OUT_OF_MEMORY}."),
        ("java.lang.Error: first\njava.lang.StackOverflowError\n\tat X\n", "StackOverflowError."),
        (f"{OUT_OF_MEMORY}\n" + "x" * LOG_END_BYTES, "JVM ended."),
        ("nothing of it\n", "JVM ended."),
        (None, "JVM ended."),
    ],
)
def test_the_error_that_ended_a_jvm_is_read_from_the_end_of_its_log(
    written: str | None, says: str, tmp_path: Path
) -> None:
    """`Spark's JVM ended.` was all, and the reader had to open the log."""
    log = tmp_path / "spark.log"
    if written is not None:
        log.write_text(written, "utf-8")

    with pytest.raises(OperationalError) as told, jvm_watched(log):
        raise ConnectionRefusedError

    assert told.value.message.endswith(says)


def test_on_standard_error_it_has_no_name() -> None:
    with pytest.raises(OperationalError) as told, jvm_watched(log_path("-")):
        raise Py4JNetworkError

    assert "log_file" not in told.value.fields


@pytest.fixture
def loggers() -> Iterator[list[logging.Logger]]:
    """py4j's loggers as before a driver starts."""
    found = [logging.getLogger(name) for name in COMMAND_LOGGERS]
    had = [one.filters[:] for one in found]
    for one in found:
        one.removeFilter(_FILTER)
    yield found
    for one, filters in zip(found, had, strict=True):
        one.filters[:] = filters


def test_what_py4j_hands_over_is_in_no_log(
    loggers: list[logging.Logger], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for one in loggers:
        caplog.set_level(logging.DEBUG, one.name)
        one.debug("Command to send: the-secret before")

    without_commands()
    without_commands()
    for one in loggers:
        one.debug("Command to send: the-secret after")
        one.info("Connection is closed")

    assert [one.getMessage() for one in caplog.records if one.name in COMMAND_LOGGERS] == [
        *["Command to send: the-secret before"] * len(COMMAND_LOGGERS),
        *["Connection is closed"] * len(COMMAND_LOGGERS),
    ]
    assert [len(one.filters) for one in loggers] == [1, 1]


def test_py4j_has_no_other_logger_of_commands() -> None:
    """Those are the modules that write them."""
    from py4j import clientserver, java_gateway

    assert {clientserver.logger.name, java_gateway.logger.name} == set(COMMAND_LOGGERS)
