"""Sends transactions at a steady rate, in its own process, and notes when each becomes visible.

It writes halves at the rate, sends the op of each as soon as the brokers have stored the half, and
reads the real topic as a read_committed consumer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final, cast

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from numpy.typing import NDArray

from bench.runs.load import QUEUE, ends_of
from bench.runs.query import Query
from bench.runs.workload import Workload
from checkback.protocol.errors import OperationalError
from checkback.protocol.properties import (
    TRAN_HALF_QUEUE_ID,
    TRAN_PREPARED_QUEUE_OFFSET,
    Headers,
    first_value,
)
from checkback.protocol.topics import TopicNames
from checkback.sinks.records.sink_record import SentHeaders

ASSIGN_TIMEOUT_S: Final = 30.0
LAST_WAIT_S: Final = 120.0
"""How long the last transactions may take to become visible."""
LINGER_MS: Final = 10
"""The linger time of an application that sends a thousand records a second. With 1 ms each request
had two records, and brokers and probe took three fifths of a core from the job."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The work of the process; the half and the real topic have as many partitions."""

    connection: Mapping[str, Any]
    topics: TopicNames
    workload: Workload
    partitions: int
    transactions_per_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Visibility:
    """When transactions were committed, and when their final messages were seen."""

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


def visibility(
    query: Query, transactions_per_s: float, seconds: float, *, has_rollbacks: bool = True
) -> Visibility:
    """Send transactions to a running job at a rate; return when each was committed and seen.

    Raises:
        OperationalError: the job or the probe failed.
    """
    trial = query.trial
    probe = Probe(
        trial.stage.connection,
        trial.settings.topics,
        replace(trial.workload, has_rollbacks=has_rollbacks),
        trial.settings.half_partitions,
        transactions_per_s,
        seconds,
    )
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_send, args=(probe, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        query.wait_until(ours.poll, seconds + 300)
        found: Visibility = ours.recv()
    except EOFError as error:
        raise OperationalError("The probe failed.", remedy="Its error is above.") from error
    finally:
        process.terminate()
        process.join()
        ours.close()
    return found


def _run_and_send(probe: Probe, result: Connection) -> None:
    result.send(run(probe))


def run(probe: Probe) -> Visibility:
    """Send, and wait until every message is visible."""
    sender, reader = _Sender(probe), _Reader(probe)
    reading = threading.Thread(target=reader.run, daemon=True)
    reading.start()
    reader.ready.wait(ASSIGN_TIMEOUT_S)
    sender.run()
    deadline_s = time.monotonic() + LAST_WAIT_S
    while sender.sent_ms.keys() - reader.seen_ms.keys() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    reader.ending.set()
    reading.join()
    sent = sorted(sender.sent_ms.items())
    return Visibility(
        np.array([at_ms for _, at_ms in sent]),
        np.array([reader.seen_ms.get(half, np.nan) for half, _ in sent]),
    )


class _Sender:
    """Sends transactions at the rate, and notes when it sent each commit."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        partitions = range(probe.partitions)
        self._first = ends_of(probe.connection, probe.topics.half, partitions)
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
        self._producer.flush(ASSIGN_TIMEOUT_S)

    def _send_half(self, number: int) -> None:
        turn, partition = divmod(number, self._probe.partitions)
        offset = self._first[partition] + turn
        headers = cast("SentHeaders", self._probe.workload.half_headers(partition, offset))
        self._producer.produce(
            self._probe.topics.half,
            next(self._bodies),
            b"k%d" % offset,
            partition,
            on_delivery=self._half_stored,
            headers=headers,
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
        headers = cast("SentHeaders", op.headers())
        self._producer.produce(self._probe.topics.op, op.value(), op.key(), at[0], headers=headers)


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
        consumer.assign([TopicPartition(topic, number, offset) for number, offset in ends.items()])
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
