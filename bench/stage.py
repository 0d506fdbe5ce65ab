"""What the runs of one call of the bench stand on: brokers, settings, folders, topics."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from checkback.bench.load import ends_of, load
from checkback.bench.machine import machine_facts
from checkback.bench.probe import Probe
from checkback.bench.workload import GROUP, Workload
from checkback.deploy.admin import admin_client
from checkback.deploy.topics import create_topics, find_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.connection import confluent_settings

QUICK_START: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
}
"""For runs so small that only their working counts."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What all runs share.

    Args:
        settings: of every run, but for checkpoint and topic prefix.
        folder: of everything on disk.
        seed: of the workload.
        body_bytes: size of a message.
        broker_pid: process of the embedded broker, None for a foreign one.
        small: a smoke run.
        machine: what it is, and how busy it was before anything was started here.
    """

    settings: Settings
    folder: Path
    seed: int
    body_bytes: int
    broker_pid: int | None = None
    small: bool = False
    machine: Mapping[str, object] = field(default_factory=machine_facts)

    @property
    def connection(self) -> dict[str, Any]:
        """Settings of librdkafka that reach the brokers; quiet, since a stop closes connections."""
        known = confluent_settings(self.settings.bootstrap_servers, self.settings.kafka)
        return {"log_level": 0, **known}

    def trial(self, name: str, **changes: Any) -> Trial:
        """Return a trial with topics and a checkpoint of its own.

        Args:
            name: of folder, topics and application; no other trial has it.
            changes: settings that differ.
        """
        folder = self.folder / name
        folder.mkdir(parents=True)
        prefix = f"{self.settings.topic_prefix}{name}-"
        if self.small:
            changes["spark"] = {**QUICK_START, **self.settings.spark, **changes.get("spark", {})}
        settings = replace(
            self.settings,
            **{
                "checkpoint": str(folder / "checkpoint"),
                "topic_prefix": prefix,
                "application_id": f"{prefix}checkback",
                **changes,
            },
        )
        return Trial(self, settings, folder)


@dataclass(slots=True)
class Trial:
    """Topics and a checkpoint: of one run, or of several that follow each other.

    Args:
        stage: what it shares with others.
        settings: its own.
        folder: of checkpoint, logs and configuration.
        next_offset: of the next half, by half partition.
    """

    stage: Stage
    settings: Settings
    folder: Path
    next_offset: dict[int, int] = field(default_factory=dict)

    @property
    def real_topic(self) -> str:
        """Where its committed messages go."""
        return f"{self.settings.topic_prefix}orders"

    @property
    def workload(self) -> Workload:
        """What its transactions are."""
        return Workload(self.stage.seed, self.stage.body_bytes, self.real_topic)

    def create(self) -> Trial:
        """Create its topics."""
        create_topics(self.settings)
        self.create_real_topics([self.real_topic, self.settings.topics.check(GROUP)])
        partitions = range(self.settings.half_partitions)
        self.next_offset = ends_of(self.stage.connection, self.settings.topics.half, partitions)
        return self

    def create_real_topics(self, names: list[str]) -> None:
        """Create topics with as many partitions as the half topic has."""
        wanted = {
            name: {
                "num_partitions": self.settings.half_partitions,
                "replication_factor": -1,
                "configs": {"max.message.bytes": str(self.settings.max_message_bytes + 65_536)},
            }
            for name in names
        }
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            admin.create_topics(wanted)
            admin.wait_for_topics(names)

    def load(
        self,
        transactions: int,
        *,
        ops: bool = True,
        workload: Workload | None = None,
    ) -> int:
        """Write transactions, as many to each half partition; return how many."""
        chosen = workload or self.workload
        first = dict(self.next_offset)
        written = load(
            self.stage.connection,
            self.settings.topic_prefix,
            chosen,
            first,
            transactions,
            ops=ops,
        )
        for partition in first:
            self.next_offset[partition] += written // len(first)
        return written

    def load_ops(self, workload: Workload, transactions: int) -> int:
        """Write the ops of the first halves of each partition; return how many."""
        prefix, connection = self.settings.topic_prefix, self.stage.connection
        first = dict.fromkeys(self.next_offset, 0)
        return load(connection, prefix, workload, first, transactions, halves=False)

    def probe(self, transactions_per_s: float, seconds: float, name: str) -> Probe:
        """Return a probe of its topics, which leaves its result in a file of that name."""
        return Probe(
            self.stage.connection,
            self.settings.topic_prefix,
            self.workload,
            self.settings.half_partitions,
            transactions_per_s,
            seconds,
            str(self.folder / f"{name}.npz"),
        )

    def stored_bytes(self) -> dict[str, int]:
        """Return how many bytes each kind of topic holds, replicas left out."""
        topics = self.settings.topics
        kinds = {
            topics.half: "half", topics.op: "op", self.real_topic: "final",
            topics.settled: "settled",
        }  # fmt: skip
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            brokers = admin.describe_log_dirs()
        largest: dict[tuple[str, int], int] = {}
        for directory in (one for broker in brokers for one in broker["log_dirs"]):
            for topic in directory["topics"]:
                if topic["name"] in kinds:
                    _take_sizes(largest, kinds[topic["name"]], topic["partitions"])
        found = dict.fromkeys(kinds.values(), 0)
        for (kind, _), size in largest.items():
            found[kind] += size
        return found

    def delete(self) -> None:
        """Delete its topics and its folder: a million transactions are gigabytes."""
        topics = self.settings.topics
        names = [
            topics.half, topics.op, topics.discarded, topics.refused, topics.settled,
            topics.check(GROUP), self.real_topic,
        ]  # fmt: skip
        self.delete_topics(names)
        shutil.rmtree(self.folder, ignore_errors=True)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete those of the topics that exist."""
        with admin_client(self.settings.bootstrap_servers, self.settings.kafka) as admin:
            admin.delete_topics(list(find_topics(admin, names)))


def _take_sizes(
    largest: dict[tuple[str, int], int], kind: str, partitions: Sequence[Mapping[str, Any]]
) -> None:
    """Keep of each partition's replicas the largest."""
    for part in partitions:
        key = (kind, part["partition_index"])
        largest[key] = max(largest.get(key, 0), part["partition_size"])
