"""A Spark task's way to the sink's process: finds it, or starts it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Final

from checkback.protocol.errors import OperationalError
from checkback.sinks.writers import WriteAnswer, WriteRequest

START_TIMEOUT_S: Final = 60.0
START_PAUSE_S: Final = 0.01
ADDRESS_BYTES_MAX: Final = 100
"""A Unix socket's path may have 104 bytes on some systems, 108 on others."""


@dataclass(frozen=True, slots=True)
class SinkProcess:
    """One of the sink's processes of an executor.

    Args:
        address: path of its socket; beside it lies the lock under which it is started.
        owner_pid: the process it ends with.
    """

    address: Path
    owner_pid: int

    @classmethod
    def of(cls, state_partition: int) -> SinkProcess:
        """Return the one that writes a state partition: as many as cores share them all."""
        owner_pid = os.getppid()
        slot = state_partition % (os.cpu_count() or 1)
        return cls(_folder() / f"{owner_pid}-{slot}", owner_pid)

    def write(self, request: WriteRequest) -> WriteAnswer:
        """Have it write, and wait.

        Raises:
            CheckbackError: what it raised.
            OperationalError: it ended, or can't be started.
        """
        with self._connected() as connection:
            try:
                connection.send(request)
                answer = connection.recv()
            except (EOFError, OSError) as error:
                raise OperationalError(
                    "The sink's process ended while it wrote.",
                    remedy="The task is tried again. If that goes on, look whether the system was "
                    "out of memory.",
                ) from error
        if isinstance(answer, WriteAnswer):
            return answer
        raise answer

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with _locked(self.address.with_suffix(".lock")):
            connection = self._connect()
            if connection is None:
                self.address.unlink(missing_ok=True)
                connection = self._start()
        with connection:
            yield connection

    def _connect(self) -> Connection | None:
        try:
            return Client(str(self.address), "AF_UNIX")
        except (FileNotFoundError, ConnectionRefusedError):
            return None

    def _start(self) -> Connection:
        # What a worker may import (a cluster's zip, say), its child has to find as well.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "checkback.sinks.process", str(self.address)]
        # A session of its own: Ctrl-C on the terminal is for the driver, which ends batches first.
        process = subprocess.Popen(
            [*command, str(self.owner_pid)],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline_s:
            connection = self._connect()
            if connection is not None:
                return connection
            time.sleep(START_PAUSE_S)
        process.kill()
        raise OperationalError(
            f"The sink's process did not start (exit code {process.wait()}).",
            remedy="Look into the executor's log for its message.",
        )


def _folder() -> Path:
    """Return the folder of this user's sockets; nobody else may enter it."""
    name = f"checkback-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / name
    if len(str(folder)) > ADDRESS_BYTES_MAX - len("/4194304-999.lock"):
        folder = Path("/tmp") / name  # noqa: S108 - its owner and rights are looked at
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise OperationalError(
            f"{folder} can be entered by others.",
            remedy="Remove it, or point TMPDIR at a folder of your own.",
        )
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
