"""A real Apache Kafka in one process (KRaft), on the loopback address, from the locked jars.

It serves the demo, tests and first experiments. The caller chooses the folder for data and logs.
"""

from __future__ import annotations

import base64
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from checkback.deploy import watcher
from checkback.deploy.broker_files import (
    LOOPBACK,
    BrokerFolder,
    BrokerRecord,
    NodeAddress,
    render,
    server_properties,
)
from checkback.deploy.jars import broker_conf, ensure_jars
from checkback.deploy.java import find_java
from checkback.protocol.errors import BrokerError, LifeCycleError, PrerequisiteError
from checkback.streaming.spark.class_archive import BROKER

START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.1
ANSWER_S: Final = 2.0
HEAP_MB: Final = 768
QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""JVM options that cut the processor time of a start from 3.7 to 2.1 s and cost throughput
later."""
PORT_RANGE: Final = range(20_000, 32_000)
"""Below the range for outgoing connections (on Linux from 32768). In that range a client that keeps
retrying to reach a stopped broker sooner or later connects to itself and holds the port."""


def new_cluster_id() -> str:
    """Return a random cluster id as Kafka writes them: 16 bytes in URL-safe base64."""
    # The first byte is fixed: an id that begins with "-" would read as an option.
    return base64.urlsafe_b64encode(b"c" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


def new_nodes(count: int, client_port: int | None = None) -> list[NodeAddress]:
    """Return addresses on free ports; the first node's client port may be given."""
    ports = free_ports(3 * count)
    if client_port is not None:
        ports[0] = client_port
    return [NodeAddress(1 + node, *ports[3 * node : 3 * node + 3]) for node in range(count)]


class EmbeddedBroker:
    """One Kafka broker as a child process; as a context manager it runs inside the block.

    Args:
        data_dir: folder for data and logs, created if missing; existing data is used again.
        port: port for clients; None: a free one.
        properties: server.properties that override the embedded broker's own. The clients' listener
            is named CLIENT (``listener.security.protocol.map`` can secure it alone).
        heap_mb: the JVM's heap.
        jvm_options: more options of the JVM, for example QUICK_START.
        cluster: all nodes of its cluster, and which one this is; None: it is alone.
        cluster_id: the cluster's id, needed when it is not alone.
    """

    def __init__(
        self,
        data_dir: Path | str,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = HEAP_MB,
        jvm_options: Sequence[str] = (),
        cluster: tuple[NodeAddress, Sequence[NodeAddress]] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        if port is not None:
            require_free(port)
        self.folder = BrokerFolder(Path(data_dir).absolute())
        self._own_properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._jvm_options = tuple(jvm_options)
        nodes = new_nodes(1, port) if cluster is None else list(cluster[1])
        self.node = nodes[0] if cluster is None else cluster[0]
        self._nodes = nodes
        self._cluster_id = cluster_id or new_cluster_id()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return f"{LOOPBACK}:{self.node.client_port}"

    @property
    def pid(self) -> int | None:
        """Process id of the broker, None while it does not run."""
        alive = self._process is not None and self._process.poll() is None
        return self._process.pid if alive and self._process else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker and return when it answers.

        Raises:
            PrerequisiteError: no Java, no jars, a port or the folder is taken, the disk is full.
            BrokerError: it ended or did not answer in time; the message says where its log is.
        """
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process without waiting for an answer: cluster nodes need each other.

        Raises:
            PrerequisiteError: as for start.
            LifeCycleError: it runs already.
        """
        if self.pid is not None:
            raise LifeCycleError(f"The broker on {self.folder.path} already runs.")
        for port in self.node.ports:
            require_free(port)
        self.folder.create()
        properties = server_properties(
            self.node, self._nodes, self.folder.data, self._own_properties
        )
        self.folder.properties.write_text(render(properties), "utf-8")
        java, options = str(find_java()), self._java_options(ensure_jars(broker_conf()))
        if not (self.folder.data / "meta.properties").exists():
            self._format([java, *QUICK_START, *options])
        self._spawn([java, *self._jvm_options, *options, "kafka.Kafka"])

    def wait_until_ready(self, others: Iterable[int] = ()) -> None:
        """Wait until the broker reports to clients that it is part of its cluster.

        Args:
            others: numbers of brokers that it has to name as well.

        Raises:
            PrerequisiteError: a port was taken, or the disk is full.
            BrokerError: it ended or did not answer in time.
        """
        try:
            self._poll_until_named({self.node.node_id, *others})
        except BaseException:
            self.kill()
            raise

    def _poll_until_named(self, brokers: set[int]) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not brokers <= self._named_brokers():
            if self.pid is None or time.monotonic() > deadline_s:
                raise self._failure()
            time.sleep(POLL_INTERVAL_S)

    def stop(self) -> None:
        """Stop the broker cleanly, or kill it after 30 s. No effect if it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a paused process would not notice SIGTERM
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Kill the broker with SIGKILL, like a crash."""
        for process in (self._watcher, self._process):
            if process is not None:
                process.kill()  # no effect on an ended process
                process.wait()
        if self._process is not None:
            self.folder.remove_record()
        self._watcher = self._process = None

    def restart(self) -> None:
        """Stop the broker if it runs, and start it on the same data and ports."""
        self.stop()
        self.start()

    def leave_running(self) -> None:
        """Let the broker outlive this process. Without this call it ends when this process ends."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            self._watcher = None

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): it keeps its connections and answers nothing."""
        pid = self._send(signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)  # until its last thread has stopped

    def resume(self) -> None:
        """Continue a paused broker."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> int:
        pid = self.pid
        if pid is None:
            raise LifeCycleError(f"The broker on {self.folder.path} does not run.")
        os.kill(pid, number)
        return pid

    def _java_options(self, jars: Sequence[Path]) -> list[str]:
        # fmt: off
        return [
            f"-Xmx{self._heap_mb}m", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
            "-Djava.net.preferIPv4Stack=true", f"-Dcheckback.log.folder={self.folder.logs}",
            f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
            "-cp", os.pathsep.join(str(jar) for jar in jars),
            *BROKER.options(" ".join(self._jvm_options)),
        ]
        # fmt: on

    def _format(self, java: Sequence[str]) -> None:
        tool = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", self._cluster_id]
        ran = subprocess.run(
            [*tool, "--config", str(self.folder.properties)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            self.folder.console.write_text(ran.stdout + ran.stderr, "utf-8")
            raise self._failure()

    def _spawn(self, command: Sequence[str]) -> None:
        with self.folder.console.open("wb") as console:
            # A session of its own: Ctrl-C in a terminal must reach only the application, which
            # still needs its broker to shut down.
            self._process = subprocess.Popen(
                [*command, str(self.folder.properties)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=self.folder.path,
                start_new_session=True,
            )
        pids = [str(os.getpid()), str(self._process.pid)]
        self._watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(watcher.__file__), *pids],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.folder.write_record(BrokerRecord(self._process.pid, self.bootstrap_servers))

    def _named_brokers(self) -> set[int]:
        """Return the brokers that it names to clients; none while it does not answer."""
        if is_free(self.node.internal_port):
            return set()  # nothing listens yet, so do not create a client
        address = f"{LOOPBACK}:{self.node.internal_port}"
        try:
            admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
            return set(admin.list_topics(timeout=ANSWER_S).brokers)
        except KafkaException:
            return set()

    def _failure(self) -> BrokerError | PrerequisiteError:
        said = self._last_words()
        if "No space left" in said:
            return PrerequisiteError(
                f"No space is left on the disk of {self.folder.path}.",
                remedy="Free some space or choose another folder with --data-dir.",
            )
        if "already in use" in said:
            return PrerequisiteError(
                f"A port of the broker on {self.folder.path} was taken meanwhile.",
                remedy="Start it again.",
            )
        happened = "did not answer in time" if self.pid else "ended while starting"
        return BrokerError(f"The broker {happened}.", remedy=f"Its log: {self.folder.logs}.")

    def _last_words(self) -> str:
        files = [self.folder.console, self.folder.logs / "server.log"]
        return "".join(file.read_text("utf-8", "replace") for file in files if file.exists())


class EmbeddedCluster:
    """Several brokers as one cluster, for tests that change leaders; a context manager.

    Args:
        brokers: number of brokers; each can be stopped, killed, paused and restarted alone.
        properties: properties of every broker, as for EmbeddedBroker.
    """

    def __init__(
        self,
        data_dir: Path | str,
        brokers: int = 3,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
    ) -> None:
        nodes = new_nodes(brokers)
        cluster_id = new_cluster_id()
        self.brokers = [
            EmbeddedBroker(
                Path(data_dir) / str(node.node_id),
                properties=properties,
                heap_mb=heap_mb,
                jvm_options=QUICK_START,
                cluster=(node, nodes),
                cluster_id=cluster_id,
            )
            for node in nodes
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def broker(self, node_id: int) -> EmbeddedBroker:
        """Return the broker with this id, the id of leaders in topic metadata."""
        return self.brokers[node_id - 1]

    def __enter__(self) -> Self:
        try:
            for broker in self.brokers:
                broker.launch()
            # Else a client may learn of a controller from a broker that can't say where it is.
            everybody = [broker.node.node_id for broker in self.brokers]
            for broker in self.brokers:
                broker.wait_until_ready(others=everybody)
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Without a majority of controllers a clean stop never ends: it waits for one to inform.
        self._kill_all()

    def _kill_all(self) -> None:
        for broker in self.brokers:
            broker.kill()


def free_ports(count: int) -> list[int]:
    """Return this many different ports on which nothing listens now.

    Raises:
        PrerequisiteError: there are too few free ports.
    """
    # Seeded by the system: two test runs that start together must not try ports in the same order.
    candidates = random.SystemRandom().sample(PORT_RANGE, len(PORT_RANGE))
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise PrerequisiteError(
        f"No {count} ports are free between {PORT_RANGE.start} and {PORT_RANGE.stop}.",
        remedy="Stop some servers, or name a port.",
    )


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set this, too. Without it a broker's own closed connections would count for a
        # minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(port: int) -> None:
    """Check that a server can listen on this port of the loopback address.

    Raises:
        PrerequisiteError: another program listens there, or this user may not.
    """
    if not is_free(port):
        raise PrerequisiteError(
            f"Port {port} on {LOOPBACK} is taken.",
            remedy="Stop the program that listens there, or choose another port with --port.",
            port=port,
        )
