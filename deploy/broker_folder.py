"""An embedded broker's folder: its files, and who runs on it."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from checkback.deploy.watcher import is_alive
from checkback.protocol.errors import PrerequisiteError


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """Who runs on a folder: what ``broker.json`` in it says."""

    pid: int
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """The folder of one broker.

    Args:
        path: the folder; everything of the broker is in it.
    """

    path: Path

    @property
    def data(self) -> Path:
        """Records, Kafka's log.dirs."""
        return self.path / "data"

    @property
    def logs(self) -> Path:
        """Folder of server.log and console.log."""
        return self.path / "logs"

    @property
    def properties(self) -> Path:
        """The server.properties."""
        return self.path / "server.properties"

    @property
    def console(self) -> Path:
        """What the process printed."""
        return self.logs / "console.log"

    @property
    def _record(self) -> Path:
        return self.path / "broker.json"

    def create(self) -> None:
        """Make the folder ready.

        Raises:
            PrerequisiteError: it can't be written, or another broker runs on it.
        """
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            self.data.mkdir(exist_ok=True)
        except OSError as error:
            raise PrerequisiteError(
                f"The folder {self.path} can't be written: {error.strerror}.",
                remedy="Choose another with --data-dir.",
            ) from error
        if self._is_in_use():
            record = self.read_record()
            whose = f" (pid {record.pid}, {record.bootstrap_servers})" if record else ""
            raise PrerequisiteError(
                f"Another broker runs on {self.path}{whose}.",
                remedy="Stop it with `checkback broker stop --data-dir` or choose another folder.",
            )

    def running(self) -> BrokerRecord | None:
        """Return the broker that runs on this folder, None if none does.

        A record whose process is gone, or whose process id now belongs to something else, counts
        as none: the lock that Kafka holds on its data tells.
        """
        record = self.read_record()
        if record is None or not is_alive(record.pid) or not self._is_in_use():
            return None
        return record

    def read_record(self) -> BrokerRecord | None:
        """Return what the record says, None if there is none or it is cut short."""
        try:
            return BrokerRecord(**json.loads(self._record.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write_record(self, record: BrokerRecord) -> None:
        """Say who runs here."""
        scratch = self._record.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(record)), "utf-8")
        scratch.replace(self._record)

    def remove_record(self) -> None:
        """Say that nobody runs here."""
        self._record.unlink(missing_ok=True)

    def _is_in_use(self) -> bool:
        """Tell whether a process holds the lock that Kafka takes on its data folder."""
        lock = self.data / ".lock"
        if not lock.exists():
            return False
        with lock.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 0, os.SEEK_SET)
            except OSError:
                return True
        return False
