"""An embedded broker's folder, its files, and the broker that runs on it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from checkback.deploy.watcher import is_alive
from checkback.protocol.errors import PrerequisiteError
from checkback.protocol.topics import HEADER_ROOM_BYTES

LOOPBACK: Final = "127.0.0.1"
MAX_MESSAGE_BYTES = 4_194_304
"""RocketMQ's maxMessageSize; the broker's default limit is this plus room for headers."""


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """The broker that runs on a folder, as ``broker.json`` in the folder says."""

    pid: int
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """The folder of one broker."""

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
            owner = f" (pid {record.pid}, {record.bootstrap_servers})" if record else ""
            raise PrerequisiteError(
                f"Another broker runs on {self.path}{owner}.",
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


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One broker of a cluster.

    Args:
        internal_port: port for the other brokers and for readiness checks; never secured, so that
            tests can secure the client port alone.
    """

    node_id: int
    client_port: int
    internal_port: int
    controller_port: int

    @property
    def ports(self) -> tuple[int, int, int]:
        """All ports, the client's first."""
        return self.client_port, self.internal_port, self.controller_port


def server_properties(
    node: NodeAddress, cluster: Sequence[NodeAddress], data: Path, own: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of one node: small, loopback only, no automatic topics."""
    listeners = {
        "CLIENT": node.client_port,
        "INTERNAL": node.internal_port,
        "CONTROLLER": node.controller_port,
    }
    listening = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())
    voters = ",".join(f"{one.node_id}@{LOOPBACK}:{one.controller_port}" for one in cluster)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "listeners": listening,
        "advertised.listeners": listening.rpartition(",")[0],
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        **_sizes(),
        **_replication(len(cluster)),
        **own,
    }


def _sizes() -> dict[str, str]:
    """Return properties that make a broker small and quick to start."""
    return {
        "auto.create.topics.enable": "false",
        # The controller refuses a restarted broker as a duplicate until its former session is over.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "message.max.bytes": str(MAX_MESSAGE_BYTES + 4 * HEADER_ROOM_BYTES),
        "replica.fetch.max.bytes": str(MAX_MESSAGE_BYTES + 4 * HEADER_ROOM_BYTES),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        # How often the broker looks for transactions past their timeout; Kafka's default is 10 s.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",  # so that tests with dying consumers are quick
        "log.cleaner.dedupe.buffer.size": "16777216",
        "num.network.threads": "2",
        "num.io.threads": "4",
    }


def _replication(brokers: int) -> dict[str, str]:
    factor = min(3, brokers)
    least_in_sync = str(max(1, factor - 1))
    return {
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": least_in_sync,
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": least_in_sync,
    }


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file.

    Java takes its bytes for Latin-1. So the text is ASCII, with other characters as escapes: a
    broker in a folder named `é` else keeps its records in one named `Ã©`.
    """
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    """Return a value as Java reads it: by the escapes that JSON has, too."""
    escaped = json.dumps(value)[1:-1]
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
