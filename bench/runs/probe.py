"""Sends transactions at a steady rate, in its own process, and notes when each becomes visible.

It writes halves at the rate, sends the op of each as soon as the brokers have stored the half, and
reads the real topic as a read_committed consumer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any, Final, cast

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from numpy.typing import NDArray

from bench.runs.query import MonitoredProcess
from bench.runs.workload import QUEUE, Workload, ends_of
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
    query: MonitoredProcess,
    transactions_per_s: float,
    seconds: float,
    *,
    has_rollbacks: bool = True,
    has_keys: bool = True,
    linger_ms: int = LINGER_MS,
) -> Visibility:
    """Send transactions to a running job at a rate; return when each was committed and seen.

    Raises:
        OperationalError: the job failed.
        BrokerError: the brokers did not answer the probe.
    """
    trial = query.trial
    probe = Probe(
        trial.stage.connection,
        trial.settings.topics,
        replace(trial.workload, has_rollbacks=has_rollbacks),
        trial.settings.half_partitions,
        transactions_per_s,
        seconds,
        has_keys,
        linger_ms,
    )
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        found = process.submit(run, probe)
        query.wait_until(found.done, seconds + 300)
        return found.result()


@dataclass(frozen=True, slots=True)
class Probe:
    """The work of the process; the half and the real topic have as many partitions."""

    connection: Mapping[str, Any]
    topics: TopicNames
    workload: Workload
    partitions: int
    transactions_per_s: float
    seconds: float
    has_keys: bool
    linger_ms: int
    sent_ms: dict[tuple[int, int], float] = field(default_factory=dict)
    seen_ms: dict[tuple[int, int], float] = field(default_factory=dict)

    def send(self) -> None:
        """Send transactions at the rate, and note when each commit was sent."""
        first = ends_of(self.connection, self.topics.half, range(self.partitions))
        bodies = self.workload.bodies(0)
        answered = sent = 0
        total = int(self.transactions_per_s * self.seconds)

        def send_op(error: object, half: Message) -> None:
            """Send the op, as a producer does once the half is stored."""
            nonlocal answered
            answered += 1
            if error is not None:
                return
            at = (half.partition() or 0, half.offset() or 0)
            op = self.workload.op(*at)
            if self.workload.commits(at[1]):
                self.sent_ms[at] = time.time() * 1_000
            headers = cast("SentHeaders", op.headers())
            producer.produce(self.topics.op, op.value(), op.key(), at[0], headers=headers)

        producer = Producer({**QUEUE, **self.connection, "linger.ms": self.linger_ms})
        started_s = time.monotonic()
        while sent < total:
            if sent <= (time.monotonic() - started_s) * self.transactions_per_s:
                turn, partition = divmod(sent, self.partitions)
                offset = first[partition] + turn
                headers = cast("SentHeaders", self.workload.half_headers(partition, offset))
                body, key = next(bodies), b"k%d" % offset if self.has_keys else None
                producer.produce(
                    self.topics.half, body, key, partition, on_delivery=send_op, headers=headers
                )
                sent += 1
            else:
                producer.poll(0.002)
        while answered < total and producer.poll(1.0):
            pass
        producer.flush(ASSIGN_TIMEOUT_S)

    def read(self, is_ready: threading.Event, is_ending: threading.Event) -> None:
        """Read the real topic from its present end, and note when each final message was seen."""
        consumer = Consumer(
            {
                **self.connection,
                "group.id": "checkback-bench-probe",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        topic = self.workload.real_topic
        ends = ends_of(self.connection, topic, range(self.partitions))
        consumer.assign([TopicPartition(topic, number, offset) for number, offset in ends.items()])
        is_ready.set()
        while not is_ending.is_set():
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


def run(probe: Probe) -> Visibility:
    """Send, and wait until every message is visible."""
    is_ready, is_ending = threading.Event(), threading.Event()
    reading = threading.Thread(target=probe.read, args=(is_ready, is_ending), daemon=True)
    reading.start()
    is_ready.wait(ASSIGN_TIMEOUT_S)
    probe.send()
    deadline_s = time.monotonic() + LAST_WAIT_S
    while probe.sent_ms.keys() - probe.seen_ms.keys() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    is_ending.set()
    reading.join()
    sent = sorted(probe.sent_ms.items())
    return Visibility(
        np.array([at_ms for _, at_ms in sent]),
        np.array([probe.seen_ms.get(half, np.nan) for half, _ in sent]),
    )
