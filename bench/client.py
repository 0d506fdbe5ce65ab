"""How many transactions per second a client process gets through, and how long each takes.

Each run is a process of its own: the floor (a bare librdkafka producer that produces a record and
waits for it), the client, its asyncio form, and the client of another checkout. They run in turn,
so that a ratio is one of neighbours.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from checkback.bench import client_process, options
from checkback.bench.client_process import (
    ASYNCIO,
    BEFORE,
    CLIENT,
    FLOOR,
    LOOK_S,
    REAL_TOPIC,
    ClientMeasurement,
    ClientRun,
)
from checkback.client.send_errors import error_of
from checkback.protocol.errors import BrokerError, PrerequisiteError, UsageError

PER_THREAD_MAX: Final = 4_000
"""A single thread would take minutes for what 64 do in a second."""


@dataclass(frozen=True)
class ClientOptions:
    """Measure the client beside a bare producer.

    Its transactions commit at once; the bare producer waits for each record.

    Raises:
        UsageError: ``threads`` has no numbers.
    """

    bootstrap_servers: str | None = options.bootstrap_servers()
    topic_prefix: str = options.topic_prefix()
    threads: str = options.option("1,8,64", "Numbers of threads; one run for each.")
    transactions: int = options.option(
        40_000,
        "Transactions of a run, all threads together; at most 4,000 for each thread.",
        least=100,
    )
    body_bytes: int = options.body_bytes(200)
    rounds: int = options.option(3, "How often all kinds of run follow each other.", least=1)
    in_flight: int = options.option(
        512, "Transactions under way at once with asyncio; 0 leaves asyncio out.", least=0
    )
    before_dir: Path | None = options.option(
        None, "The src folder of another checkout, whose client is measured in turn."
    )

    def thread_counts(self) -> list[int]:
        """Return how many threads send in each run.

        Raises:
            UsageError: the option does not hold whole numbers.
        """
        parts = self.threads.split(",")
        if not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise UsageError(
                f"--threads is {self.threads!r}.", remedy="Give whole numbers: --threads 1,8,64."
            )
        return [int(part) for part in parts]

    def runs_of(self, servers: str) -> list[ClientRun]:
        """Return a run of the client for each number of threads.

        Args:
            servers: the brokers in use.
        """
        return [
            ClientRun(
                kind=CLIENT,
                bootstrap_servers=servers,
                topic_prefix=self.topic_prefix,
                threads=number,
                transactions=min(PER_THREAD_MAX, -(-self.transactions // number)),
                body_bytes=self.body_bytes,
            )
            for number in self.thread_counts()
        ]


@dataclass(frozen=True, kw_only=True)
class ClientRatio:
    """A measure: the median of the ratios of neighbours, and the smallest and largest.

    Args:
        measure: what is divided by what.
        threads: of both.
        median: of the ratios.
        least: of them.
        most: of them.
    """

    measure: str
    threads: int
    median: float
    least: float
    most: float


def create_real_topic(bootstrap_servers: str, topic_prefix: str, partitions: int) -> None:
    """Create the topic that the messages are meant for, unless it exists.

    Args:
        bootstrap_servers: Kafka brokers.
        topic_prefix: of Checkback's topics.
        partitions: as many as the half topic has, so that the floor batches as halves do.

    Raises:
        BrokerError: Kafka can't be reached, or refused.
    """
    topic = topic_prefix + REAL_TOPIC
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    try:
        if admin.list_topics(topic, LOOK_S).topics[topic].error is not None:
            admin.create_topics([NewTopic(topic, partitions)])[topic].result(LOOK_S)
    except KafkaException as error:
        if error_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return  # a broker that was asked a moment ago did not know it yet
        raise BrokerError(
            f"The topic {topic} can't be created: {error}.", remedy="Create it by hand."
        ) from error


def measure_in_turn(chosen: ClientOptions, servers: str) -> list[ClientMeasurement]:
    """Measure floor, client, asyncio and the client before, one after the other, in rounds.

    Args:
        chosen: what is measured, and how often.
        servers: the brokers in use, with the topics on them.

    Raises:
        UsageError: the numbers of threads are none.
        PrerequisiteError: a run failed; a broken run is not measured.
    """
    runs = chosen.runs_of(servers)
    most = max(run.threads for run in runs)
    measured = []
    for run in runs:
        in_flight = chosen.in_flight if run.threads == most else 0
        for _ in range(chosen.rounds):
            measured.append(_in_process(replace(run, kind=FLOOR), None))
            measured.append(_in_process(run, None))
            if in_flight:
                share = max(1, run.threads * run.transactions // in_flight)
                loop = replace(run, kind=ASYNCIO, threads=in_flight, transactions=share)
                measured.append(_in_process(loop, None))
            if chosen.before_dir is not None:
                measured.append(_in_process(replace(run, kind=BEFORE), chosen.before_dir))
    return measured


def ratios(measured: Sequence[ClientMeasurement]) -> list[ClientRatio]:
    """Return the measures of what was measured in turn."""
    found: list[ClientRatio] = []
    for threads in dict.fromkeys(one.threads for one in measured if one.kind == CLIENT):
        for kind, measure in ((FLOOR, "client_to_floor"), (BEFORE, "client_to_before")):
            pairs = _pairs(measured, threads, kind)
            speeds = [ours.transactions_per_s / other.transactions_per_s for ours, other in pairs]
            times = [ours.latency_p50_ms / other.latency_p50_ms for ours, other in pairs]
            if speeds:
                found.append(_ratio(measure, threads, speeds))
            if times and kind == FLOOR:
                found.append(_ratio("time_to_floor", threads, times))
    return found


def _pairs(
    measured: Sequence[ClientMeasurement], threads: int, kind: str
) -> list[tuple[ClientMeasurement, ClientMeasurement]]:
    ours = [one for one in measured if (one.kind, one.threads) == (CLIENT, threads)]
    others = [one for one in measured if (one.kind, one.threads) == (kind, threads)]
    return list(zip(ours, others, strict=False))


def _ratio(measure: str, threads: int, values: Sequence[float]) -> ClientRatio:
    return ClientRatio(
        measure=measure,
        threads=threads,
        median=round(statistics.median(values), 2),
        least=round(min(values), 2),
        most=round(max(values), 2),
    )


def _in_process(run: ClientRun, checkout: Path | None) -> ClientMeasurement:
    environment: Mapping[str, str] = os.environ
    if checkout is not None:
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, "-P", client_process.__file__, json.dumps(asdict(run))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PrerequisiteError(
            f"A run of the client failed: {done.stderr[-2_000:]}",
            remedy="See what it says, and run it again.",
        )
    return ClientMeasurement(**json.loads(done.stdout.splitlines()[-1]))
