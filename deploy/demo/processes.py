"""The demo's child processes: real ones, each heard line by line and ended for certain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from checkback.deploy import watcher

STOP_TIMEOUT_S: Final = 60.0
LOG_TAIL_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a child said, or that it ended.

    Args:
        source: the child's name.
        event: what it said it is; ``ended`` when the process is gone.
        fields: the rest of what it said; of an ended one ``exit_code``, negative for a signal.
    """

    source: str
    event: str
    fields: Mapping[str, Any]


class Child:
    """A process that says what it does as JSON lines on its standard output.

    Args:
        name: who speaks, in notices.
        command: what to run.
        log: takes its standard error; added to.
        inbox: takes the notices.
        environment: the process's whole environment.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        inbox: SimpleQueue[Notice],
        environment: Mapping[str, str],
    ) -> None:
        self.name = name
        self.log = log
        self._inbox = inbox
        with log.open("ab") as error_stream:
            # A session of its own: Ctrl-C reaches the demo alone, which ends its children in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=error_stream,
                env=dict(environment),
                start_new_session=True,
            )
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", watcher.__file__, str(os.getpid()), str(self.pid)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=f"{name} output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM and wait; SIGKILL when the time is over.

        Returns:
            Its exit code, negative for the signal that ended it.
        """
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join()
        return self._process.wait()

    def last_lines(self) -> list[str]:
        """Return the end of what it wrote to its standard error."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return [line for line in lines if line.strip()][-LOG_TAIL_LINES:]

    def _read(self) -> None:
        output = self._process.stdout
        if output is not None:
            with output:
                for line in output:
                    self._hear(line)
        exit_code = self._process.wait()
        self._watcher.kill()
        self._watcher.wait()
        self._inbox.put(Notice(self.name, "ended", {"exit_code": exit_code, "pid": self.pid}))

    def _hear(self, line: bytes) -> None:
        try:
            fields = json.loads(line)
            event = fields.pop("event")
        except (ValueError, AttributeError, KeyError):
            return  # a killed process may leave half a line
        self._inbox.put(Notice(self.name, event, fields))


def said_error(child: Child) -> tuple[str, str]:
    """Return message and remedy of the error that a ``checkback`` command said as its last.

    Where it said none, the last line of its standard error, which in a traceback is the error.
    """
    lines = child.last_lines()
    for line in reversed(lines):
        try:
            error = json.loads(line)["error"]
            return str(error["message"]), str(error["remedy"])
        except (ValueError, KeyError, TypeError):
            continue
    return (lines[-1] if lines else "It said nothing."), f"Its log: {child.log}."


def told_exit(exit_code: int) -> str:
    """Return how a process ended, in words."""
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
