"""Starts the JVM of a Spark driver with its output in a file and SIGTERM ignored.

Spark prints nine lines at each start, and hundreds around one failure. A person at a terminal wants
only the one sentence that this process prints itself. So the JVM's output goes to a file, and the
sentence names the file.

Stopping the pipeline often signals all of its processes: systemd does so by default
(``KillMode=control-group``), and so does Ctrl-C on a terminal. A JVM that then ends by itself
interrupts the running batch. HotSpot keeps ignoring a signal that was ignored when it started
(``os::signal``). So this module starts it with SIGTERM ignored, and it ends when the driver closes
its standard input.
"""

from __future__ import annotations

import atexit
import logging
import os
import pwd
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError

from checkback.checkpoints.spark_internals import gateway_of_process, new_gateway, use_gateway
from checkback.metrics.log_lines import FORMATTERS
from checkback.protocol.errors import PrerequisiteError
from checkback.streaming.spark.jars import is_submitted

ON_STANDARD_ERROR: Final = "-"
"""Value of log_file that leaves the JVM's output on standard error, where containers collect it."""
NOISY: Final = ("py4j", "pyspark")
"""Loggers in Python that repeat the JVM's lines."""
COMMAND_LOGGERS: Final = ("py4j.clientserver", "py4j.java_gateway")
"""Those that write commands; a filter of a logger above them would not see the lines."""


@cache
def log_path(log_file: str) -> Path | None:
    """Return the file for the JVM's output; None for standard error.

    Args:
        log_file: the setting; "" chooses a temporary file, which is deleted when this process ends,
            unless an error names it.
    """
    if log_file == ON_STANDARD_ERROR or is_submitted():  # its JVM has an output already
        return None
    if log_file:
        return Path(log_file)
    number, name = tempfile.mkstemp(prefix="checkback-spark-", suffix=".log")
    os.close(number)
    atexit.register(_remove_unless_named, Path(name))
    return Path(name)


_named: Final[set[Path]] = set()


def named(log: Path) -> str:
    """Return the log's name for an error, and keep the file."""
    _named.add(log)
    return str(log)


def _remove_unless_named(log: Path) -> None:
    if log not in _named:
        log.unlink(missing_ok=True)


def launch_driver_jvm(
    settings: Mapping[str, str], log: Path | None, log_format: str = "text"
) -> None:
    """Start the JVM that later sessions of this process use, unless one already runs.

    Args:
        settings: Spark's settings by key, with those that a JVM reads only when it starts.
        log: the file for its output; None for this process's standard error.
        log_format: of what Spark's Python side writes there.
    """
    without_commands()
    if gateway_of_process() is not None:
        return
    gateway = launched_jvm(settings, log)
    use_gateway(gateway)
    if log is not None:
        _write_to(log, log_format)


def launched_jvm(settings: Mapping[str, str], log: Path | None) -> Any:
    """Start a JVM for sessions that are given it explicitly; return pyspark's gateway to it.

    Args:
        settings: Spark's settings by key; empty ones are left out.
        log: the file for its output; None for this process's standard error.
    """
    without_commands()
    given = [(key, value) for key, value in settings.items() if value]
    conf = SparkConf(loadDefaults=False).setAll(given)
    try:
        with _output(log) as output, _sigterm_ignored():
            return new_gateway(conf, output)
    except PySparkRuntimeError as error:
        raise _start_error(log) from error


@contextmanager
def _output(log: Path | None) -> Iterator[dict[str, Any]]:
    if log is None:
        yield {}
        return
    try:
        file = log.open("ab")
    except OSError as error:
        raise PrerequisiteError(
            f"Spark's log {log} can't be written: {error.strerror}.",
            remedy="Set log_file to a writable file, or to - for standard error.",
            log_file=named(log),
        ) from error
    with file:
        yield {"stdout": file, "stderr": file}


@contextmanager
def _sigterm_ignored() -> Iterator[None]:
    """Ignore SIGTERM inside the block, so that processes started there inherit it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change handlers
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _start_error(log: Path | None) -> PrerequisiteError:
    where = "the lines above say why" if log is None else f"{named(log)} says why"
    remedy = "Often it is a spark.* setting, or less memory than spark.driver.memory asks for."
    if not _has_name(os.getuid()):  # Spark and Hadoop ask for the user's name and folder
        remedy = f"The user {os.getuid()} has no line in /etc/passwd; run it as one that has."
    return PrerequisiteError(
        f"Spark's JVM ended while it started: {where}.",
        remedy=remedy,
        log_file="" if log is None else str(log),
    )


def _has_name(user: int) -> bool:
    try:
        return bool(pwd.getpwuid(user).pw_name)
    except KeyError:
        return False


def _write_to(log: Path, log_format: str) -> None:
    handler = logging.FileHandler(log)
    handler.setFormatter(FORMATTERS[log_format]())
    for name in NOISY:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False


class _WithoutDebug(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG


_FILTER: Final = _WithoutDebug()


def without_commands() -> None:
    """Stop py4j's debug lines; a second call changes nothing.

    Each shows what Python hands to the JVM: the secrets of accounts, and the logins of Kafka and of
    object stores. A program that sets its root logger to DEBUG would write these lines.
    """
    for name in COMMAND_LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
