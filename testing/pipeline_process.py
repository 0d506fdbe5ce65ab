"""Runs ``checkback run`` as a process that a test starts, reads, stops and kills."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from checkback.deploy.settings import environment_without_settings, write_settings
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import LifeCycleError
from checkback.testing.processes import Child, Notice

RUN: Final = (sys.executable, "-c", "from checkback.commands import main; main()", "run")
QUICK_JVM: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
)
"""The JVM's second compiler does not pay off in a short run: without it 12 s of processor time
instead of 22. And the archive of classes stays at the address that it was made for: moving it is a
defence that a test does not need, and took 0.6 s and a private copy of 110 MB in each JVM."""
QUICK_SPARK: Final = {"spark.driver.extraJavaOptions": QUICK_JVM, "spark.driver.memory": "1g"}
"""Spark settings for small runs; they need no speed."""
START_TIMEOUT_S: Final = 240.0
STOP_TIMEOUT_S: Final = 90.0
KILLED_TIMEOUT_S: Final = 30.0
ERROR_CHARACTERS: Final = 10_000


def pipeline_command(
    config: Path, program: Sequence[str] = RUN, options: Sequence[str] = ()
) -> list[str]:
    """Return the command line of a pipeline."""
    return [*program, "--config", str(config), "--output", "json", *options]


class PipelineProcess:
    """One ``checkback run``; as a context manager it runs inside the block and is then killed.

    Args:
        settings: its settings; it ignores settings in this process's environment.
        folder: folder for its configuration file and its standard error (``run.err``).
        environment: more variables besides those of this process.
        program: the command to run.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = RUN,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.environment = dict(environment or {})
        self.program = program
        self.events: list[dict[str, Any]] = []
        self._inbox: SimpleQueue[Notice] = SimpleQueue()
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive:
            self.kill()

    def start(self) -> None:
        """Start the process, also again after its end; returns at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "checkback.toml"
        write_settings(config, self.settings)
        self._inbox = SimpleQueue()
        environment = {**environment_without_settings(), **self.environment}
        command = pipeline_command(config, self.program)
        log = self.folder / "run.err"
        self._child = Child("pipeline", command, log, self._inbox, environment)

    @property
    def pid(self) -> int:
        """Process id of the driver."""
        return self._started.pid

    @property
    def is_alive(self) -> bool:
        """Whether the driver runs."""
        return self._child is not None and self._child.is_alive

    def wait_for(self, event: str, timeout_s: float = START_TIMEOUT_S) -> dict[str, Any]:
        """Wait for the next line with this event, and return it.

        Raises:
            OperationalError: the process ended before, or the line did not come in time.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                notice = self._inbox.get(timeout=max(0.1, deadline_s - time.monotonic()))
            except Empty:
                what = f"did not say {event!r} within {timeout_s:g} s"
                raise self._started.failure(what) from None
            if notice.event == "ended":
                raise self._started.failure(f"ended before it said {event!r}")
            if self._keep(notice)["event"] == event:
                return self.events[-1]

    def drain(self) -> list[dict[str, Any]]:
        """Return all lines so far, including those returned by `wait_for`."""
        while True:
            try:
                notice = self._inbox.get_nowait()
            except Empty:
                return self.events
            if notice.event != "ended":
                self._keep(notice)

    def terminate(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM, wait for the end, and return the exit code.

        Raises:
            OperationalError: it did not end in time.
        """
        self._started.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self, *, driver_only: bool = False) -> None:
        """Send SIGKILL to driver, JVM and Python workers at once, as a lost machine would.

        Args:
            driver_only: kill only the driver's Python process; the JVM has to notice that by
                itself, possibly while a successor starts.
        """
        if driver_only:
            self._started.send_signal(signal.SIGKILL)
        else:
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(KILLED_TIMEOUT_S)

    def wait(self, timeout_s: float = 180.0) -> int:
        """Wait until the process has ended; return the exit code, negative for a signal.

        Raises:
            OperationalError: it did not end in time.
        """
        exit_code = self._started.wait(timeout_s)
        if exit_code is None:
            raise self._started.failure(f"did not end within {timeout_s:g} s")
        return exit_code

    def wait_for_jvm(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait until the JVM has ended, too, a moment after its driver.

        The end of their shared output shows that, so ``log_file`` must be "-".

        Raises:
            OperationalError: it did not end in time.
        """
        if not self._started.wait_for_output_end(timeout_s):
            raise self._started.failure(f"left a JVM that did not end within {timeout_s:g} s")

    def errors(self) -> str:
        """Return the last lines of its standard error."""
        return (self.folder / "run.err").read_text("utf-8", "replace")[-ERROR_CHARACTERS:]

    @property
    def _started(self) -> Child:
        if self._child is None:
            raise LifeCycleError("The pipeline was not started.", remedy="Call start() first.")
        return self._child

    def _keep(self, notice: Notice) -> dict[str, Any]:
        self.events.append({"event": notice.event, **notice.fields})
        return self.events[-1]
