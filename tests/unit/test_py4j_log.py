"""py4j's debug lines, which hold secrets, get into no log: checkback.streaming.spark.driver_jvm."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from checkback.streaming.spark.driver_jvm import _FILTER, COMMAND_LOGGERS, without_commands


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
