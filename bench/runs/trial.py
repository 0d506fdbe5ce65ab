"""The setting of a benchmark's runs: brokers, settings, folders, topics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka import Producer

from bench.runs.samples import sampling
from bench.runs.workload import GROUP, Workload, ends_of, write
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.records import tick_headers
from checkback.sinks.records.sink_record import SentHeaders
from checkback.testing.pipeline_process import QUICK_SPARK
from checkback.testing.topics import create_plain_topics, delete_topics

PROCESSES: Final = 2
TICK_INTERVAL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """The settings and folders that all runs share."""

    settings: Settings
    folder: Path
    seed: int
    body_bytes: int
    broker_pid: int | None = None  # of the embedded broker
    small: bool = False  # a smoke run

    @property
    def connection(self) -> dict[str, str]:
        """Connection settings of librdkafka."""
        return self.settings.connection()

    def trial(self, name: str, **changes: Any) -> Trial:
        """Return a trial with its own topics and checkpoint."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        prefix = f"{self.settings.topic_prefix}{name}-"
        if self.small:
            changes["spark"] = {**QUICK_SPARK, **self.settings.spark, **changes.get("spark", {})}
        own = {
            "checkpoint": str(folder / "checkpoint"),
            "topic_prefix": prefix,
            "application_id": f"{prefix}checkback",
        }
        return Trial(self, replace(self.settings, **{**own, **changes}), folder)


@dataclass(slots=True)
class Trial:
    """Topics and a checkpoint for one run, or for several consecutive runs."""

    stage: BenchSetting
    settings: Settings
    folder: Path
    next_offset: dict[int, int] = field(default_factory=dict)  # by half partition
    accounts: int = 0

    @property
    def real_topic(self) -> str:
        """The real topic of the trial."""
        return f"{self.settings.topic_prefix}orders"

    @property
    def workload(self) -> Workload:
        """The trial's transactions."""
        seed, size = self.stage.seed, self.stage.body_bytes
        return Workload(seed, size, self.real_topic, accounts=self.accounts)

    def control_access(self, accounts: int) -> None:
        """Have that many accounts sign the records, and the job verify them."""
        self.accounts = accounts
        rules = self.folder / "plain_acl.yml"
        rules.touch(mode=0o600)
        rules.write_text(self.workload.access_rules(), "utf-8")
        self.settings = replace(self.settings, acl_file=str(rules))

    def create(self) -> Trial:
        """Create the trial's topics."""
        create_topics(self.settings)
        self._create_plain_topics(self.real_topic, self.settings.topics.check(GROUP))
        partitions = range(self.settings.half_partitions)
        self.next_offset = ends_of(self.stage.connection, self.settings.topics.half, partitions)
        return self

    def _create_plain_topics(self, *names: str) -> None:
        largest = str(self.settings.max_message_bytes + 65_536)
        partitions = self.settings.half_partitions
        create_plain_topics(self.settings, names, partitions, {"max.message.bytes": largest})

    @contextmanager
    def other_real_topic(self, name: str) -> Iterator[str]:
        """Create a real topic for a comparison; delete it after the block."""
        topic = f"{self.settings.topic_prefix}{name}"
        self._create_plain_topics(topic)
        yield topic
        delete_topics(self.settings, [topic])

    def load(
        self, transactions: int, *, has_ops: bool = True, workload: Workload | None = None
    ) -> int:
        """Write transactions, evenly to all half partitions; return how many.

        The number is rounded up to the same number in each partition.
        """
        count = -(-transactions // len(self.next_offset))
        connection, topics = self.stage.connection, self.settings.topics
        writing = partial(write, connection, topics, workload or self.workload, count, has_ops)
        firsts = list(self.next_offset.items())
        shares = [dict(firsts[number::PROCESSES]) for number in range(PROCESSES)]
        # Pickled to the process, not on its command line: the connection may hold a password.
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            list(pool.map(writing, shares))
        for partition in self.next_offset:
            self.next_offset[partition] += count
        return count * len(self.next_offset)

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Write a tick to the feedback topic every 20 ms inside the block.

        Without new data Spark runs no batch of a stateless query at all. A tick is data that both
        the job and its baseline ignore.
        """
        producer = Producer({**self.stage.connection, "linger.ms": 0})
        headers = cast("SentHeaders", tick_headers())

        def tick() -> None:
            producer.produce(self.settings.topics.feedback, b"", partition=0, headers=headers)
            producer.poll(0)

        try:
            with sampling(tick, TICK_INTERVAL_S, "ticks"):
                yield
        finally:
            producer.flush(30.0)

    def delete(self) -> None:
        """Delete the trial's topics and folder: a million transactions are gigabytes."""
        topics = self.settings.topics
        own = [*topics.read, topics.discarded, topics.refused, topics.settled, topics.status]
        delete_topics(self.settings, [*own, topics.check(GROUP), self.real_topic])
        shutil.rmtree(self.folder, ignore_errors=True)
