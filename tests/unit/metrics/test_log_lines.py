"""Log lines: JSON with Spark's keys, text for people, facts on every line inside a context."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from checkback.metrics.log_lines import LOGGER, facts, log_context, write_log_lines

log = logging.getLogger("checkback.sinks.somewhere")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    logger = logging.getLogger(LOGGER)
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    logger.handlers.clear()
    yield io.StringIO()
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logger.propagate = propagate


def test_a_json_line_has_the_keys_of_sparks(lines: io.StringIO) -> None:
    write_log_lines("json", "INFO", lines)
    with log_context(batch_id=7, state_partition=1):
        log.info("refused: %s", "why", extra=facts(transaction_id="t-1"))

    line = json.loads(lines.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "INFO",
        "msg": "refused: why",
        "context": {"batch_id": 7, "state_partition": 1, "transaction_id": "t-1"},
        "logger": "checkback.sinks.somewhere",
    }


def test_an_exception_is_in_the_json_line(lines: io.StringIO) -> None:
    write_log_lines("json", "INFO", lines)
    try:
        int("no number")
    except ValueError:
        log.exception("failed\nin two lines")

    line = json.loads(lines.getvalue())
    assert line["exception"]["class"] == "ValueError"
    assert line["exception"]["msg"].endswith("'no number'")
    assert "test_log_lines.py" in line["exception"]["stacktrace"]


def test_a_text_line_ends_with_its_facts(lines: io.StringIO) -> None:
    write_log_lines("text", "WARNING", lines)
    with log_context(batch_id=7):
        log.warning("lost")
        log.info("not told at this level")
    log.error("outside")

    first, second = lines.getvalue().splitlines()
    assert first.endswith(" WARNING checkback.sinks.somewhere: lost batch_id=7")
    assert second.endswith(" ERROR checkback.sinks.somewhere: outside")


def test_what_a_record_says_begins_no_line_and_commands_no_terminal(lines: io.StringIO) -> None:
    write_log_lines("text", "INFO", lines)
    forged = facts(transaction_id="x\n2026 ERROR forged\x1b")
    log.error("refused: %s", "a\nb", extra=forged, exc_info=ValueError("\x1b[2J"))

    first, trace = lines.getvalue().splitlines()
    assert first.endswith(r"refused: a\nb transaction_id=x\n2026 ERROR forged\x1b")
    assert trace == r"ValueError: \x1b[2J"


def test_a_second_call_changes_form_and_level_and_doubles_no_line(lines: io.StringIO) -> None:
    write_log_lines("text", "ERROR", lines)
    write_log_lines("json", "DEBUG")
    log.debug("now told")

    assert json.loads(lines.getvalue())["msg"] == "now told"


def test_of_two_contexts_the_inner_one_adds_to_the_outer_one(lines: io.StringIO) -> None:
    write_log_lines("json", "INFO", lines)
    with log_context(batch_id=1):
        with log_context(batch_id=2, state_partition=0):
            log.info("inside")
        log.info("outside")

    inside, outside = map(json.loads, lines.getvalue().splitlines())
    assert inside["context"] == {"batch_id": 2, "state_partition": 0}
    assert outside["context"] == {"batch_id": 1}
