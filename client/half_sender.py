"""Stores half messages: synchronously, acknowledged by all replicas, at most once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError

from checkback.protocol.errors import SendError
from checkback.protocol.properties import Headers


@dataclass(frozen=True, slots=True)
class StoredHalf:
    """Where a half was stored.

    Args:
        partition: of the half topic.
        offset: in it.
        stored_at_ms: by the broker's clock, milliseconds since the epoch.
    """

    partition: int
    offset: int
    stored_at_ms: int


class HalfSender:
    """Writes half messages, round robin over the partitions.

    Args:
        producer: an idempotent Kafka producer: its own tries store a record at most once.
        half_topic: where to.
        partitions: of the half topic.
        budget_ms: time for all tries of one half.
    """

    def __init__(self, producer: Any, half_topic: str, partitions: int, budget_ms: int) -> None:
        self._producer = producer
        self._half_topic = half_topic
        self._partitions = partitions
        self._budget_s = budget_ms / 1000
        self._turns = itertools.count()

    def send(self, body: bytes, key: bytes | None, headers: Headers) -> StoredHalf:
        """Store a half and return where.

        Raises:
            SendError: it was not, or not certainly, stored.
        """
        partition = next(self._turns) % self._partitions
        try:
            sent = self._producer.send(self._half_topic, body, key, headers, partition)
            stored = sent.get(self._budget_s)
        except KafkaError as error:
            raise SendError(
                f"The half message was not certainly stored: {type(error).__name__}: {error}",
                remedy="The local transaction did not run; send again when Kafka answers.",
            ) from error
        return StoredHalf(stored.partition, stored.offset, stored.timestamp)
