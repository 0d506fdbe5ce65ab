"""Connects a Spark task to its sink process, which it starts if there is none."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Final

from checkback.protocol.errors import OperationalError
from checkback.sinks.process.key import read_key, write_key
from checkback.sinks.process.writer_pool import WriteAnswer, WriteRequest

START_TIMEOUT_S: Final = 60.0
START_PAUSE_S: Final = 0.01
ENDED: Final = ".ended"
"""Ending of a file beside the socket: the process died while it wrote for that state partition."""
ADDRESS_BYTES_MAX: Final = 100
"""A Unix socket's path may have 104 bytes on some systems, 108 on others."""


@dataclass(frozen=True, slots=True)
class SinkProcess:
    """One of the sink's processes of an executor.

    Args:
        address: path of its socket; beside it lies the lock under which it is started.
    """

    address: Path
    owner_pid: int

    @classmethod
    def of(cls, state_partition: int, processes: int | None = None) -> SinkProcess:
        """Return the process of a state partition; processes take state partitions in turn."""
        owner_pid = os.getppid()
        slot = state_partition % (processes or _own_cores())
        return cls(_folder() / f"{owner_pid}-{slot}", owner_pid)

    def write(self, request: WriteRequest) -> WriteAnswer:
        """Let the process write, and wait for its answer.

        If a process died over this request before, the next one writes without the compiled part.

        Raises:
            CheckbackError: the process raised it.
            OperationalError: the process ended, or can't be started.
        """
        ended = self.address.with_name(f"{self.address.name}-{request.state_partition}{ENDED}")
        with self._connected() as connection:
            try:
                connection.send(request._replace(is_native=not ended.exists()))
                answer = connection.recv()
            except (EOFError, OSError) as error:
                ended.touch()
                raise OperationalError(
                    "The sink's process ended while it wrote.",
                    remedy="The task is tried again. If that goes on, look whether the system was "
                    "out of memory.",
                ) from error
        ended.unlink(missing_ok=True)
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
        """Return a connection; None where no process with the key listens."""
        try:
            return Client(str(self.address), "AF_UNIX", authkey=read_key(self.address))
        except (OSError, EOFError, AuthenticationError):
            return None

    def _start(self) -> Connection:
        write_key(self.address)
        # What a worker may import (a cluster's zip, say), its child has to find as well.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "checkback.sinks.process.server", str(self.address)]
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
    """Return the folder of this user's sockets; no other user may enter it."""
    name = f"checkback-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / name
    if len(str(folder)) > ADDRESS_BYTES_MAX - len("/4194304-999.lock"):
        folder = Path("/tmp") / name  # noqa: S108 - its owner and rights are looked at
    with suppress(FileExistsError):  # a link, too; it is looked at below
        folder.mkdir(mode=0o700, parents=True)
    status = folder.lstat()
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not is_own or status.st_mode & 0o077:
        raise OperationalError(
            f"{folder} is no folder of this user's, or can be entered by others.",
            remedy="Remove it, or point TMPDIR at a folder of your own.",
        )
    return folder


def _own_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
