"""Parts for tests of the whole pipeline: `checkback run` as a process, topics as lists."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from checkback.deploy.settings_file import write_settings
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import text_value
from checkback.protocol.records import Op, half_headers
from checkback.protocol.topics import TopicNames

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_SPARK = {"spark.driver.extraJavaOptions": QUICK_JVM}
"""A short run is over before the JVM's second compiler pays: 22 s of processor time became 12."""
COMMAND = str(Path(sys.executable).parent / "checkback")


def wait_until(holds: Callable[[], object], timeout_s: float = 60.0, what: str = "") -> None:
    """Look again and again until it holds; what another process does has no other sign."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or holds}"
        time.sleep(0.1)


@dataclass
class Topics:
    """Checkback's topics on a broker, written and read as plain records."""

    bootstrap_servers: str
    prefix: str
    half_partitions: int = 2
    _producer: Producer | None = None

    @property
    def names(self) -> TopicNames:
        return TopicNames(self.prefix)

    def settings(self, checkpoint: Path, **changes: Any) -> Settings:
        """Settings with intervals short enough for a test."""
        return Settings(
            **{
                "bootstrap_servers": self.bootstrap_servers,
                "checkpoint": str(checkpoint),
                "topic_prefix": self.prefix,
                "half_partitions": self.half_partitions,
                "state_partitions": 2,
                "master": "local[2]",
                "transaction_timeout_ms": 1_500,
                "check_interval_ms": 1_500,
                "check_max": 3,
                "progress_interval_ms": 500,
                "spark": {"spark.ui.enabled": "false", "spark.driver.memory": "1g", **QUICK_SPARK},
                **changes,
            }
        )

    def create(
        self, settings: Settings, real: Sequence[str] = (), groups: Sequence[str] = ()
    ) -> None:
        create_topics(settings)
        wanted = [NewTopic(name, 2, 1) for name in real]
        wanted += [NewTopic(self.names.check(group), 1, 1) for group in groups]
        # Kept by name: an admin client that is collected takes its open answers with it.
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for future in admin.create_topics(wanted).values() if wanted else ():
            future.result()

    def send_half(
        self,
        body: bytes,
        real: str,
        *,
        partition: int = 0,
        transaction_id: str | None = None,
        group: str = "g",
        key: bytes | None = None,
        properties: dict[str, str] | None = None,
    ) -> tuple[int, int]:
        """Store a half; return (partition, offset)."""
        headers = half_headers(
            producer_group=group,
            transaction_id=transaction_id or body.decode(),
            real_topic=real,
            properties=properties or {},
        )
        return self.send_raw(self.names.half, body, headers, partition, key)

    def send_op(
        self,
        at: tuple[int, int],
        transaction_id: str,
        state: int,
        *,
        group: str = "g",
    ) -> None:
        op = Op(at[0], at[1], group, transaction_id, state)
        self.send_raw(self.names.op, op.value(), op.headers(), at[0], op.key())

    def send_raw(
        self,
        topic: str,
        value: bytes | None,
        headers: Any,
        partition: int = 0,
        key: bytes | None = None,
    ) -> tuple[int, int]:
        """Store any record; return (partition, offset)."""
        if self._producer is None:
            # Quiet: it outlives the broker, and would tell of that below pytest's last line.
            quiet = {"log_level": 0, "linger.ms": 0, "acks": "all"}
            self._producer = Producer({"bootstrap.servers": self.bootstrap_servers, **quiet})
        stored: list[Message] = []
        self._producer.produce(
            topic,
            value,
            key,
            partition,
            headers=headers,
            on_delivery=lambda error, message: stored.append(message) if error is None else None,
        )
        self._producer.flush()
        return stored[0].partition() or 0, stored[0].offset() or 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Return all that a consumer sees now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        metadata = consumer.list_topics(topic, 10).topics[topic]
        consumer.assign([TopicPartition(topic, number, 0) for number in metadata.partitions])
        found: list[Message] = []
        ended = 0
        while ended < len(metadata.partitions):
            message = consumer.poll(20)
            assert message is not None, f"no end of {topic}"
            if message.error():
                ended += 1
            else:
                found.append(message)
        consumer.close()
        return found

    def bodies(self, topic: str) -> list[str]:
        return sorted((message.value() or b"").decode() for message in self.read(topic))

    def reasons(self) -> list[str]:
        return sorted(
            text_value(message.headers() or [], "__checkback.errors.reason") or ""
            for message in self.read(self.names.refused)
        )


@dataclass
class Pipeline:
    """One `checkback run` process."""

    settings: Settings
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None
    _lines: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def __enter__(self) -> Pipeline:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self) -> None:
        """Start the process in a group of its own; returns at once."""
        config = self.folder / "checkback.toml"
        write_settings(config, self.settings)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "run.err").open("a") as errors:
            self._process = subprocess.Popen(
                [COMMAND, "run", "--config", str(config), "--output", "json"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )
        self._lines = queue.Queue()
        reader = (self._process, self._lines)
        threading.Thread(target=_read_lines, args=reader, daemon=True).start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_for(self, event: str, timeout_s: float = 120.0) -> dict[str, Any]:
        """Return the next line with that event."""
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line is not None, f"ended before {event}: {self.errors()}"
            found = json.loads(line)
            self.events.append(found)
            if found["event"] == event:
                return dict(found)

    def drain(self) -> list[dict[str, Any]]:
        """Return the lines so far."""
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None:
                self.events.append(json.loads(line))
        return self.events

    def terminate(self, timeout_s: float = 90.0) -> int:
        """SIGTERM, and wait for the end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)

    def kill(self, *, driver_only: bool = False) -> None:
        """SIGKILL to driver, JVM and Python workers at once, as a lost machine would.

        To the driver's Python alone, the JVM has to notice by itself, while a successor starts.
        """
        assert self._process is not None
        if driver_only:
            self._process.kill()
        else:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def wait(self, timeout_s: float = 60.0) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def errors(self) -> str:
        return (self.folder / "run.err").read_text()[-10_000:]


def _read_lines(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)
