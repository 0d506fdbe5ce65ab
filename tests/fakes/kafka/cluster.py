"""The cluster: topics, groups, the coordinator, and what operators do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TopicPartition
from tests.fakes.kafka.awaits import Awaits, Fault
from tests.fakes.kafka.clock import Clock
from tests.fakes.kafka.coordinator import Coordinator
from tests.fakes.kafka.groups import Committed, GroupOffsets, Place
from tests.fakes.kafka.log import Headers, PartitionLog, Record

DAY_MS: Final = 86_400_000
RECORD_BATCH_BYTES_MAX: Final = 1_048_588
OFFSETS_RETENTION_MS: Final = 7 * DAY_MS


@dataclass(slots=True)
class Topic:
    """A topic.

    Args:
        partitions: its logs.
        bytes_max: its max.message.bytes, the largest record batch.
        is_compacted: its cleanup.policy.
        is_denied: nobody may write to it.
    """

    partitions: list[PartitionLog]
    bytes_max: int = RECORD_BATCH_BYTES_MAX
    is_compacted: bool = False
    is_denied: bool = False


@dataclass(slots=True)
class Cluster:
    """Brokers in memory. All clients of it share its clock.

    Args:
        awaits: decides what goes wrong.
        moved: told of each committed offset that took hold: (group, place, offset and metadata).
        offsets_retention_ms: how long a group without members keeps an offset.
    """

    awaits: Awaits
    moved: Callable[[str, Place, Committed], None] = lambda _group, _place, _committed: None
    offsets_retention_ms: float = OFFSETS_RETENTION_MS
    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, GroupOffsets] = field(default_factory=dict)
    coordinator: Coordinator = field(init=False)
    coordinator_moves_until_ms: float = 0.0
    skew_ms: int = 0
    """How far the brokers' clock is ahead of the time."""

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(self.clock, self.awaits.marker_delay_ms)

    @property
    def clock(self) -> Clock:
        """The clock of everybody."""
        return self.awaits.clock

    def create_topic(self, name: str, partitions: int, bytes_max: int | None = None) -> Topic:
        """Make a topic; one that is there stays as it is."""
        if name not in self.topics:
            logs = [PartitionLog(name, number) for number in range(partitions)]
            self.topics[name] = Topic(logs, bytes_max or RECORD_BATCH_BYTES_MAX)
        return self.topics[name]

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return a partition's log, None where there is none."""
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def write(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> int:
        """Append a record of somebody who uses no transaction, with the broker's time."""
        log = self.topics[topic].partitions[partition]
        return log.append(Record(key, value, headers, int(self.clock.now_ms) + self.skew_ms))

    def group(self, name: str) -> GroupOffsets:
        """Return a group's offsets; the first who names a group makes it."""
        found = self.groups.get(name)
        if found is None:
            found = GroupOffsets(lambda place, entry: self.moved(name, place, entry))
            self.groups[name] = found
        return found

    def reset_offsets(self, name: str, positions: list[TopicPartition]) -> None:
        """Do what ``kafka-consumer-groups --reset-offsets`` does: its offsets have no metadata."""
        self.group(name).commit(positions, self.clock.now_ms)

    def enter(self, call: str) -> Fault | None:
        """Begin a call: what is due happens first; return what goes wrong with it."""
        fault = self.awaits.before(call)
        self.tick()
        return fault

    def tick(self) -> None:
        """Do what time has brought about."""
        self.coordinator.tick()

    def expire_offsets(self) -> None:
        """Forget offsets older than their retention, as brokers do every ten minutes."""
        before_ms = self.clock.now_ms - self.offsets_retention_ms
        for group in self.groups.values():
            group.expire(before_ms)

    def wait_until(self, is_so: Callable[[], bool], timeout_ms: float) -> bool:
        """Wait until something is so; tell whether it is."""

        def is_now_so() -> bool:
            self.tick()
            return is_so()

        if is_now_so():
            return True
        until_ms = self.clock.now_ms + timeout_ms
        return self.awaits.wait(is_now_so, until_ms, self.coordinator.next_event_ms)

    def sleep(self, pause_ms: float) -> None:
        """Let that time pass."""
        self.wait_until(lambda: False, pause_ms)
