"""A pipeline whose checkpoint the tests of its tools look into: topics, halves and their ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from tests.integration.running import Topics, wait_until
from tests.upgrade.store_release import check_counts

from checkback.checkpoints.local_files import LocalCheckpoint
from checkback.checkpoints.store import CheckpointStore
from checkback.operations.topics.lag import topic_ends
from checkback.protocol.configuration import Settings

GROUP = "shop"
PATIENCE_S = 240.0
"""A first batch takes 9 s on a quiet machine, and minutes on one that is shared by many."""
HALF_PARTITIONS = 6
"""Enough pages that several state partitions have some."""


@dataclass
class Stage:
    """Topics, and a checkpoint whose pipeline has ended."""

    topics: Topics
    settings: Settings
    folder: Path
    real: str
    halves: dict[str, tuple[int, int]]
    seen_at_work: dict[str, Any]

    def local(self) -> LocalCheckpoint:
        return LocalCheckpoint(Path(self.settings.checkpoint))

    def checkpoint(self, spark: SparkSession) -> CheckpointStore:
        return CheckpointStore.of(spark, self.settings.checkpoint)

    def half(self, name: str, partition: int) -> None:
        self.halves[name] = self.topics.send_half(
            name.encode(), self.real, partition=partition, group=GROUP
        )

    def op(self, name: str, state: int) -> None:
        self.topics.send_op(self.halves[name], name, state, group=GROUP)

    def lag(self) -> int:
        """What `kafka-consumer-groups --describe` would say of the application's group."""
        names = self.topics.names
        ends = topic_ends(self.settings, names.read)
        consumer = Consumer(
            {
                "bootstrap.servers": self.settings.bootstrap_servers,
                "group.id": self.settings.application_id,
            }
        )
        found = consumer.committed([TopicPartition(*place) for place in ends], 20)
        consumer.close()
        read = {(one.topic, one.partition): max(0, one.offset) for one in found}
        return sum(end - read[place] for place, end in ends.items())

    def checks(self) -> dict[str, list[int]]:
        """The counts that check requests bore, by transaction."""
        return check_counts(self.topics, GROUP)


def wait_for_idle(stage: Stage) -> None:
    wait_until(lambda: stage.lag() == 0, PATIENCE_S, what="no lag")


def cut(name: str) -> Callable[[Path, int], str]:
    def damage(folder: Path, batch: int) -> str:
        file = name.format(before=batch - 1, batch=batch, version=batch + 1)
        path = folder / file
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_bytes(path.read_bytes()[: max(1, path.stat().st_size // 2)])
        return file

    return damage


def cut_newest(name: str) -> Callable[[Path, int], str]:
    def damage(folder: Path, batch: int) -> str:
        newest = max((folder / name).glob("*.json"), key=lambda path: int(path.stem))
        return cut(f"{name}/{newest.name}")(folder, batch)

    return damage


def empty(name: str) -> Callable[[Path, int], str]:
    def damage(folder: Path, _: int) -> str:
        (folder / name).write_bytes(b"")
        (folder / name).with_name(f".{Path(name).name}.crc").unlink(missing_ok=True)
        return name

    return damage


def flip(name: str) -> Callable[[Path, int], str]:
    def damage(folder: Path, batch: int) -> str:
        file = name.format(before=batch - 1, batch=batch, version=batch + 1)
        content = bytearray((folder / file).read_bytes())
        content[-1] ^= 0xFF
        (folder / file).write_bytes(content)
        return file

    return damage
