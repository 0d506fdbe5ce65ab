"""Real child processes; their output is read line by line, and they are always ended."""

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
from checkback.protocol.errors import OperationalError

STOP_TIMEOUT_S: Final = 60.0
LOG_TAIL_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Notice:
    """A line that a child printed, or the news of its end.

    Args:
        source: the child's name.
        event: the line's event; ``ended`` after the process's end.
        fields: the line's other fields; for ``ended`` the ``exit_code``, negative for a signal.
    """

    source: str
    event: str
    fields: Mapping[str, Any]


class Child:
    """A process that reports as JSON lines on its standard output."""

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
            # A session of its own: Ctrl-C reaches only the parent, which ends its children.
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

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal; no effect after its end."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; return the exit code, None if the process still runs."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def wait_for_output_end(self, timeout_s: float) -> bool:
        """Wait until no process can write to its standard output; return whether that came in time.

        Processes that it started share this output and may end later.
        """
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM and wait; send SIGKILL when the time is over.

        Returns:
            The exit code, negative for the signal that ended the process.
        """
        self._process.terminate()
        if self.wait(timeout_s) is None:
            self._process.kill()
        self._reader.join()
        return self._process.wait()

    def failure(self, what: str) -> OperationalError:
        """Return the error that the process failed, with the last error that it printed.

        That is the error of a ``checkback`` command; without one, the last line of its standard
        error, which in a traceback is the error.
        """
        lines = self.log.read_text("utf-8", "replace").splitlines()
        lines = [line for line in lines if line.strip()][-LOG_TAIL_LINES:]
        said, remedy = (lines[-1] if lines else "It said nothing."), f"Its log: {self.log}."
        for line in reversed(lines):
            try:
                error = json.loads(line)["error"]
                said, remedy = str(error["message"]), str(error["remedy"])
            except (ValueError, KeyError, TypeError):
                continue
            break
        return OperationalError(f"The {self.name} {what}. {said}", remedy=remedy)

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


def told_exit(exit_code: int) -> str:
    """Return how a process ended, in words."""
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"
