"""An embedded broker's folder: its files, and the broker that runs on it."""

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
    """The broker that runs on a folder, as ``broker.json`` in the folder says."""

    pid: int
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """The folder of one broker.

    Args:
        path: the folder with all files of the broker.
    """

    path: Path

    @property
    def data(self) -> Path:
        """The folder of the records, Kafka's log.dirs."""
        return self.path / "data"

    @property
    def logs(self) -> Path:
        """The folder of server.log and console.log."""
        return self.path / "logs"

    @property
    def properties(self) -> Path:
        """The server.properties."""
        return self.path / "server.properties"

    @property
    def console(self) -> Path:
        """The process's output."""
        return self.logs / "console.log"

    @property
    def _record(self) -> Path:
        return self.path / "broker.json"

    def create(self) -> None:
        """Create the folder.

        Raises:
            PrerequisiteError: the folder can't be written, or another broker runs on it.
        """
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            self.data.mkdir(exist_ok=True)
        except OSError as error:
            raise PrerequisiteError(
                f"The folder {self.path} can't be written: {error.strerror}.",
                remedy="Choose another folder with --data-dir.",
            ) from error
        if self._is_in_use():
            record = self.read_record()
            whose = f" (pid {record.pid}, {record.bootstrap_servers})" if record else ""
            raise PrerequisiteError(
                f"Another broker runs on {self.path}{whose}.",
                remedy="Stop it with `checkback broker stop --data-dir` or choose another folder.",
            )

    def running(self) -> BrokerRecord | None:
        """Return the broker that runs on this folder, None if none runs.

        Kafka's lock on its data shows whether the broker of the record still runs. The process id
        alone would not do, because another process may have it now.
        """
        record = self.read_record()
        if record is None or not is_alive(record.pid) or not self._is_in_use():
            return None
        return record

    def read_record(self) -> BrokerRecord | None:
        """Return the record, None if there is none or it is truncated."""
        try:
            return BrokerRecord(**json.loads(self._record.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write_record(self, record: BrokerRecord) -> None:
        """Record the broker that runs here."""
        scratch = self._record.with_suffix(".new")
        scratch.write_text(json.dumps(asdict(record)), "utf-8")
        scratch.replace(self._record)

    def remove_record(self) -> None:
        """Record that no broker runs here."""
        self._record.unlink(missing_ok=True)

    def _is_in_use(self) -> bool:
        """Return whether a process holds Kafka's lock on the data folder."""
        lock = self.data / ".lock"
        if not lock.exists():
            return False
        with lock.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 0, os.SEEK_SET)
            except OSError:
                return True
        return False
