"""Keeps py4j's debug lines out of every log: each shows what Python hands to the JVM.

That includes the secrets of accounts and the logins of Kafka and of object stores. A program that
sets its root logger to DEBUG would write these lines.
"""

from __future__ import annotations

import logging
from typing import Final

LOGGERS: Final = ("py4j.clientserver", "py4j.java_gateway")
"""Those that write commands; a filter of a logger above them would not see the lines."""


class _WithoutDebug(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG


_FILTER: Final = _WithoutDebug()


def without_commands() -> None:
    """Have py4j write no debug lines from now on; to say it twice changes nothing."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
