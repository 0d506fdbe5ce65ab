"""A Consumer that reads assigned partitions and committed offsets; it joins no group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from tests.deciding import message
from tests.fakes.kafka.admin import Metadata, metadata_of
from tests.fakes.kafka.cluster import Cluster
from tests.fakes.kafka.errors import passing, timed_out
from tests.fakes.kafka.log import PartitionLog, Record

BROKER_TIME = 2
"""TIMESTAMP_LOG_APPEND_TIME, as confluent_kafka numbers it."""
NO_OFFSET = -1001


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """What a transactional producer has to know of a group."""

    group: str


class FakeConsumer:
    """A Consumer of the cluster.

    Args:
        cluster: whose.
        configuration: as confluent_kafka takes it; group.id and isolation.level matter.
    """

    def __init__(self, cluster: Cluster, configuration: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._group = str(configuration["group.id"])
        self._reads_committed = configuration.get("isolation.level") != "read_uncommitted"
        self._positions: list[tuple[PartitionLog, int]] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from these offsets on; nothing of it leaves the process."""
        found = [(self._cluster.log(one.topic, one.partition), one.offset) for one in partitions]
        self._positions = [(log, offset) for log, offset in found if log is not None]

    def unassign(self) -> None:
        """Read nothing until the next assignment."""
        self._positions = []

    def poll(self, timeout: float = -1) -> Message | None:
        """Return the next record; None when none came in time."""
        fault = self._cluster.enter("consumer.poll")
        found = next(self._next(1), None) if fault is None else None
        if found is None:
            self._cluster.sleep(max(0.0, timeout) * 1_000)
        self._cluster.awaits.after("consumer.poll")
        return found

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return records that are there, at most that number."""
        del timeout
        self._cluster.enter("consumer.consume")
        found = list(self._next(self._cluster.awaits.fetched(num_messages)))
        self._cluster.awaits.after("consumer.consume")
        return found

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, *, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset and the end; for read_committed the last stable offset.

        Raises:
            KafkaException: the partition has no leader.
        """
        del timeout, cached
        fault = self._cluster.enter("consumer.watermarks")
        log = self._cluster.log(partition.topic, partition.partition)
        if log is None:
            error = KafkaError(KafkaError._UNKNOWN_PARTITION, partition.topic)
            raise KafkaException(error)
        if fault is not None or log.leaderless_until_ms > self._cluster.clock.now_ms:
            raise passing(KafkaError.NOT_LEADER_FOR_PARTITION, partition.topic)
        found = 0, self._end(log)
        self._cluster.awaits.after("consumer.watermarks")
        return found

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the group's offsets there.

        Who reads committed waits for transactions that are about to set one of them.

        Raises:
            KafkaException: the coordinator moves, or one was pending all the time.
        """
        fault = self._cluster.enter("consumer.committed")
        if fault is not None or self._cluster.coordinator_moves_until_ms > self._now_ms:
            raise passing(KafkaError.NOT_COORDINATOR, "the coordinator moves")
        group = self._cluster.group(self._group)
        places = [(one.topic, one.partition) for one in partitions]
        if self._reads_committed and not self._cluster.wait_until(
            lambda: not group.is_pending(places), timeout * 1_000
        ):
            raise timed_out("committed")
        found = [self._committed_at(one) for one in partitions]
        self._cluster.awaits.after("consumer.committed")
        return found

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool = True) -> None:
        """Set offsets of the group, outside of any transaction."""
        del asynchronous
        self._cluster.enter("consumer.commit")
        self._cluster.group(self._group).commit(offsets, self._now_ms)
        self._cluster.awaits.after("consumer.commit")

    def consumer_group_metadata(self) -> GroupMetadata:
        """Return what send_offsets_to_transaction wants."""
        return GroupMetadata(self._group)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Metadata:
        """Return all topics."""
        del topic, timeout
        self._cluster.enter("list_topics")
        return metadata_of(self._cluster)

    def close(self) -> None:
        """Give the connection up."""
        self._cluster.enter("consumer.close")
        self._positions = []

    @property
    def _now_ms(self) -> float:
        return self._cluster.clock.now_ms

    def _end(self, log: PartitionLog) -> int:
        return log.last_stable_offset if self._reads_committed else log.end

    def _next(self, most: int) -> Iterator[Message]:
        left = most
        for index, (log, position) in enumerate(self._positions):
            if log.leaderless_until_ms > self._now_ms:
                continue
            offset, end = position, self._end(log)
            while offset < end and left:
                record = log.records[offset]
                offset += 1
                self._positions[index] = (log, offset)
                if not record.is_marker and (
                    not self._reads_committed or log.is_visible(offset - 1)
                ):
                    left -= 1
                    yield message_of(log, offset - 1, record)

    def _committed_at(self, one: TopicPartition) -> TopicPartition:
        found = self._cluster.group(self._group).committed.get((one.topic, one.partition))
        if found is None:
            return TopicPartition(one.topic, one.partition, NO_OFFSET)
        return TopicPartition(one.topic, one.partition, found.offset, found.metadata)


def message_of(log: PartitionLog, offset: int, record: Record) -> Message:
    """Return a record as confluent_kafka gives it to a consumer."""
    made: Message = message(
        topic=log.topic,
        partition=log.number,
        offset=offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp=(BROKER_TIME, record.timestamp_ms),
    )
    return made
