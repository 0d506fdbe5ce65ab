"""The stage of a bench's runs: brokers, settings, folders, topics."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checkback.bench.load import ends_of, load
from checkback.bench.machine import machine_facts
from checkback.bench.probe import Probe
from checkback.bench.workload import GROUP, Workload
from checkback.deploy.admin import admin_client
from checkback.deploy.topics import create_topics
from checkback.protocol.configuration import Settings
from checkback.testing.pipeline_process import QUICK_SPARK
from checkback.testing.topics import create_plain_topics, delete_topics, own_topics


@dataclass(frozen=True, slots=True)
class BenchSetting:
    """The settings and folders that all runs share.

    Args:
        settings: settings of every run, except checkpoint and topic prefix.
        folder: folder for all files.
        seed: seed of the workload.
        body_bytes: size of a message.
        broker_pid: process id of the embedded broker, None for a foreign one.
        small: whether this is a smoke run.
        machine: facts about the machine and its load before the bench started anything.
    """

    settings: Settings
    folder: Path
    seed: int
    body_bytes: int
    broker_pid: int | None = None
    small: bool = False
    machine: Mapping[str, object] = field(default_factory=machine_facts)

    @property
    def connection(self) -> dict[str, str]:
        """Connection settings of librdkafka."""
        return self.settings.connection()

    def trial(self, name: str, **changes: Any) -> Trial:
        """Return a trial with its own topics and checkpoint.

        Args:
            name: name for folder, topics and application; no other trial has it.
            changes: changed settings by name.
        """
        folder = self.folder / name
        folder.mkdir(parents=True)
        prefix = f"{self.settings.topic_prefix}{name}-"
        if self.small:
            changes["spark"] = {**QUICK_SPARK, **self.settings.spark, **changes.get("spark", {})}
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
    """Topics and a checkpoint for one run, or for several consecutive runs.

    Args:
        stage: the stage that all trials share.
        settings: the trial's settings.
        folder: folder for checkpoint, logs and configuration.
        next_offset: offset of the next half, by half partition.
        accounts: how many accounts sign the records; 0 for no access control.
    """

    stage: BenchSetting
    settings: Settings
    folder: Path
    next_offset: dict[int, int] = field(default_factory=dict)
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

    def control_access(self, accounts: int) -> Trial:
        """Have that many accounts sign the records, and the job verify them."""
        self.accounts = accounts
        rules = self.folder / "plain_acl.yml"
        rules.touch(mode=0o600)
        rules.write_text(self.workload.access_rules(), "utf-8")
        self.settings = replace(self.settings, acl_file=str(rules))
        return self

    def create(self) -> Trial:
        """Create the trial's topics."""
        create_topics(self.settings)
        self.create_real_topics([self.real_topic, self.settings.topics.check(GROUP)])
        partitions = range(self.settings.half_partitions)
        self.next_offset = ends_of(self.stage.connection, self.settings.topics.half, partitions)
        return self

    def create_real_topics(self, names: list[str]) -> None:
        """Create real topics with the half topic's number of partitions."""
        largest = str(self.settings.max_message_bytes + 65_536)
        partitions = self.settings.half_partitions
        create_plain_topics(self.settings, names, partitions, {"max.message.bytes": largest})

    def load(
        self,
        transactions: int,
        *,
        ops: bool = True,
        workload: Workload | None = None,
    ) -> int:
        """Write transactions, evenly to all half partitions; return how many."""
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
        """Return a probe for the trial's topics, with a result file of this name."""
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
        """Return how many bytes each kind of topic holds, on one replica."""
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
        """Delete the trial's topics and folder: a million transactions are gigabytes."""
        self.delete_topics([*own_topics(self.settings.topics, [GROUP]), self.real_topic])
        shutil.rmtree(self.folder, ignore_errors=True)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete the topics that exist."""
        delete_topics(self.settings, names)


def _take_sizes(
    largest: dict[tuple[str, int], int], kind: str, partitions: Sequence[Mapping[str, Any]]
) -> None:
    """Keep the largest replica of each partition."""
    for part in partitions:
        key = (kind, part["partition_index"])
        largest[key] = max(largest.get(key, 0), part["partition_size"])
