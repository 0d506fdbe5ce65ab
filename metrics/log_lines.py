"""Log lines of driver and sink processes: text, or JSON with the keys of Spark's own JSON lines.

Inside `log_context` every line of every module has the context's facts: batch and state
partition need to be said once. A single line gets more by `extra=facts(transaction_id=...)`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TextIO

from checkback.metrics.printable import printable

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
LOGGER: Final = "checkback"

_NO_FACTS: Final[Mapping[str, object]] = MappingProxyType({})
_context: ContextVar[Mapping[str, object]] = ContextVar("checkback_log_facts", default=_NO_FACTS)


@contextmanager
def log_context(**known: object) -> Iterator[None]:
    """Put facts on every line that is logged inside the block."""
    token = _context.set({**_context.get(), **known})
    try:
        yield
    finally:
        _context.reset(token)


def facts(**known: object) -> dict[str, Any]:
    """Return facts for one line, as the argument `extra` of a logger's methods."""
    return {"facts": known}


def _facts_of(record: logging.LogRecord) -> dict[str, object]:
    return {**_context.get(), **getattr(record, "facts", {})}


class JsonLines(logging.Formatter):
    """One JSON object per line; its keys are those of Spark's structured logging."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "ts": _time_of(record),
            "level": record.levelname,
            "msg": record.getMessage(),
        }
        known = _facts_of(record)
        if known:
            line["context"] = known
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            trace = "".join(traceback.format_exception(error))
            line["exception"] = {
                "class": type(error).__name__, "msg": str(error), "stacktrace": trace,
            }  # fmt: skip
        line["logger"] = record.name
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """One line for people; the facts stand at its end."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with a trace below it if there is one."""
        line = f"{_time_of(record)} {record.levelname} {record.name}: {record.getMessage()}"
        line += "".join(f" {name}={value}" for name, value in _facts_of(record).items())
        # What a record says is among it, which must not end the line and begin one of its own.
        line = printable(line)
        if record.exc_info:
            line += "\n" + printable(self.formatException(record.exc_info), kept="\n")
        return line


FORMATTERS: Final[Mapping[str, type[logging.Formatter]]] = {"json": JsonLines, "text": TextLines}


class _OwnHandler(logging.StreamHandler[TextIO]):
    """The handler that `write_log_lines` puts on the logger, so that it finds it again."""


def write_log_lines(
    log_format: str,
    level: str,
    stream: TextIO | None = None,
    loggers: Iterable[str] = (LOGGER,),
) -> None:
    """Have loggers write to a stream; a second call changes format and level."""
    for name in loggers:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        own = next((one for one in logger.handlers if isinstance(one, _OwnHandler)), None)
        if own is None:
            own = _OwnHandler(stream or sys.stderr)
            logger.addHandler(own)
            logger.propagate = False
        elif stream is not None:
            own.setStream(stream)
        if type(own.formatter) is not FORMATTERS[log_format]:
            own.setFormatter(FORMATTERS[log_format]())


def _time_of(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
