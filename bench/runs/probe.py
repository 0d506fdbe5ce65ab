"""Sends transactions at a steady rate and notes when each becomes visible, in its own process.

``python -m checkback.bench.probe`` writes halves at the rate, sends the op of each as soon as the
brokers have stored the half, and reads the real topic as a read_committed consumer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self, cast

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from numpy.typing import NDArray

from checkback.bench.load import QUEUE, ends_of
from checkback.bench.workload import Workload
from checkback.protocol.errors import OperationalError
from checkback.protocol.properties import (
    TRAN_HALF_QUEUE_ID,
    TRAN_PREPARED_QUEUE_OFFSET,
    Headers,
    first_value,
)
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.sink_record import SentHeaders

PARTITIONS_TIMEOUT_S: Final = 30.0
LAST_WAIT_S: Final = 120.0
"""How long the last transactions may take to become visible."""
LINGER_MS: Final = 10
"""The linger time of an application that sends a thousand records a second. With 1 ms each request
had two records, and brokers and probe took three fifths of a core from the job."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The work of the process.

    Args:
        connection: librdkafka's settings for the connection.
        topic_prefix: prefix of Checkback's topics.
        workload: the transactions to write.
        partitions: number of partitions of the half topic and of the real topic.
        transactions_per_s: the rate.
        seconds: duration of the sending.
        file: file for the result.
    """

    connection: Mapping[str, Any]
    topic_prefix: str
    workload: Workload
    partitions: int
    transactions_per_s: float
    seconds: float
    file: str


@dataclass(frozen=True, slots=True)
class Visibility:
    """When transactions were committed, and when their final messages were seen.

    Args:
        sent_ms: float64[n], when the producer got the op, milliseconds since 1970.
        seen_ms: float64[n], when the final message was read; NaN if it never was.
    """

    sent_ms: NDArray[np.float64]
    seen_ms: NDArray[np.float64]

    def between(self, from_ms: float, to_ms: float) -> Visibility:
        """Return the transactions that were committed in a span of time."""
        chosen = (self.sent_ms >= from_ms) & (self.sent_ms < to_ms)
        return Visibility(self.sent_ms[chosen], self.seen_ms[chosen])

    def quantile_ms(self, share: float) -> float:
        """Return the quantile of the time from commit to visible.

        Raises:
            OperationalError: there is no transaction, or one never became visible.
        """
        if not len(self.sent_ms) or np.isnan(self.seen_ms).any():
            raise OperationalError(
                f"{int(np.isnan(self.seen_ms).sum())} of {len(self.sent_ms)} committed messages"
                " did not become visible in time.",
                remedy="Try a lower rate; this one may be too high for the machine.",
            )
        return float(np.quantile(self.seen_ms - self.sent_ms, share))


class RunningProbe:
    """The running process; a context manager that ends it.

    Args:
        probe: its work.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "checkback.bench.probe"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(asdict(self._probe)).encode())
            self._process.stdin.close()
            self._process.stdin = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def is_over(self) -> bool:
        """Return whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def result(self) -> Visibility:
        """Wait for the end and return the result.

        Raises:
            OperationalError: the process failed.
        """
        if self._process is None or self._process.wait() != 0:
            said = self._process.stderr.read() if self._process and self._process.stderr else b""
            raise OperationalError(f"The probe failed: {said.decode()[-500:]}")
        found = np.load(self._probe.file)
        return Visibility(found["sent_ms"], found["seen_ms"])


class _Sender:
    """Sends transactions at the rate, and notes when it sent each commit."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._topics = TopicNames(probe.topic_prefix)
        self._first = ends_of(probe.connection, self._topics.half, range(probe.partitions))
        self._bodies = probe.workload.bodies(0)
        self._producer = Producer({**QUEUE, **probe.connection, "linger.ms": LINGER_MS})
        self._answered = 0
        self.sent_ms: dict[tuple[int, int], float] = {}

    def run(self) -> None:
        probe, sent = self._probe, 0
        total = int(probe.transactions_per_s * probe.seconds)
        started_s = time.monotonic()
        while sent < total:
            passed_s = time.monotonic() - started_s
            due = min(total, int(passed_s * probe.transactions_per_s) + 1)
            for number in range(sent, due):
                self._send_half(number)
            sent = due
            self._producer.poll(0.002)
        while self._answered < total and self._producer.poll(1.0):
            pass
        self._producer.flush(PARTITIONS_TIMEOUT_S)

    def _send_half(self, number: int) -> None:
        turn, partition = divmod(number, self._probe.partitions)
        offset = self._first[partition] + turn
        headers = self._probe.workload.half_headers(partition, offset)
        key, body = b"k%d" % offset, next(self._bodies)
        _produce(
            self._producer, self._topics.half, body, key, partition, headers, self._half_stored
        )

    def _half_stored(self, error: object, half: Message) -> None:
        """Send the op, as a producer does once the half is stored."""
        self._answered += 1
        if error is not None:
            return
        workload, at = self._probe.workload, (half.partition() or 0, half.offset() or 0)
        op = workload.op(*at)
        if workload.commits(at[1]):
            self.sent_ms[at] = time.time() * 1_000
        _produce(self._producer, self._topics.op, op.value(), op.key(), at[0], op.headers())


def _produce(
    producer: Producer,
    topic: str,
    value: bytes,
    key: bytes,
    partition: int,
    headers: Headers,
    on_delivery: Any = None,
) -> None:
    sent = cast("SentHeaders", headers)
    producer.produce(topic, value, key, partition, on_delivery=on_delivery, headers=sent)


@dataclass(slots=True)
class _Reader:
    """Reads the real topic from its present end, and notes when it saw each final message."""

    probe: Probe
    seen_ms: dict[tuple[int, int], float] = field(default_factory=dict)
    ready: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        consumer = Consumer(
            {
                **self.probe.connection,
                "group.id": "checkback-bench-probe",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        topic = self.probe.workload.real_topic
        ends = ends_of(self.probe.connection, topic, range(self.probe.partitions))
        consumer.assign([TopicPartition(topic, one, offset) for one, offset in ends.items()])
        self.ready.set()
        while not self.ending.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            headers = cast("Headers", message.headers() or [])
            at = (
                int(first_value(headers, TRAN_HALF_QUEUE_ID) or b"-1"),
                int(first_value(headers, TRAN_PREPARED_QUEUE_OFFSET) or b"-1"),
            )
            self.seen_ms.setdefault(at, time.time() * 1_000)
        consumer.close()


def run(probe: Probe) -> None:
    """Send, wait until every message is visible, and write the result to the file."""
    sender, reader = _Sender(probe), _Reader(probe)
    reading = threading.Thread(target=reader.run, daemon=True)
    reading.start()
    reader.ready.wait(PARTITIONS_TIMEOUT_S)
    sender.run()
    deadline_s = time.monotonic() + LAST_WAIT_S
    while sender.sent_ms.keys() - reader.seen_ms.keys() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    reader.ending.set()
    reading.join()
    sent = sorted(sender.sent_ms.items())
    seen_ms = np.array([reader.seen_ms.get(at, np.nan) for at, _ in sent])
    with Path(probe.file).open("wb") as file:
        np.savez(file, sent_ms=np.array([at_ms for _, at_ms in sent]), seen_ms=seen_ms)


def main() -> None:
    """Read the probe from standard input and run it."""
    found = json.loads(sys.stdin.read())
    run(Probe(**{**found, "workload": Workload(**found["workload"])}))


if __name__ == "__main__":
    main()
