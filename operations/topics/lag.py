"""How far the pipeline has read each topic, and how much is left. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.cluster.transient_errors import broker_errors
from checkback.sinks.kafka.read.list_offsets import COMMITTED, by_place, listed_offsets, places_of
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END, next_record
from checkback.sinks.kafka.transaction.marker import committed_offsets

TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far the pipeline has read one partition of a topic.

    Args:
        committed: offset after the last record of the last committed batch, None before the first.
        end: the end for a reader of committed records, None if it was not read.
    """

    topic: str
    partition: int
    committed: int | None
    planned: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Number of records from the committed offset to the end; None if either is unknown."""
        if self.end is None or self.committed is None:
            return None
        return max(0, self.end - self.committed)


def read_positions(
    committed: Offsets, planned: Offsets, ends: Mapping[tuple[str, int], int]
) -> list[ReadPosition]:
    """Return how far every partition has been read, ordered by topic and number."""
    read, to_read = by_place(committed), by_place(planned)
    return [
        ReadPosition(*place, read.get(place), to_read.get(place), ends.get(place))
        for place in sorted({*read, *to_read, *ends})
    ]


def topic_ends(settings: Settings, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    """Return the end of each partition for a reader of committed records, of topics that exist."""
    admin = AdminClient(settings.connection())
    return listed_offsets(admin, places_of(admin, topics, TIMEOUT_S), isolation=COMMITTED)


def oldest_unread_ms(
    settings: Settings, positions: Iterable[ReadPosition], timeout_s: float = TIMEOUT_S
) -> int | None:
    """Return when the brokers stored the oldest record that was not read; None if all were."""
    found: list[int] = []
    options = {**LOOKUP_CONSUMER, **REPORTS_END, **settings.connection()}
    with closing(Consumer(options)) as consumer:
        for at in (at for at in positions if at.lag):
            consumer.assign([TopicPartition(at.topic, at.partition, at.committed or 0)])
            record = next_record(consumer, at.topic, at.partition, timeout_s)
            # The marks that end Kafka transactions have offsets, too, and are no records.
            found += [] if record is None else [record.timestamp()[1]]
    return min(found, default=None)


def published_offsets(settings: Settings, ends: Mapping[tuple[str, int], int]) -> Offsets:
    """Return the offsets that the pipeline commits for lag tools; none where it committed none."""
    group = settings.application_id
    remedy = f"Check the brokers, and the right to READ the group {group}."
    # A consumer that reads nothing: the Admin call for a group's offsets can abort the process
    # (librdkafka #3663, #4605).
    with (
        broker_errors("The pipeline's position can't be read", remedy),
        closing(Consumer({**settings.connection(), "group.id": group})) as consumer,
    ):
        wanted = [TopicPartition(*one) for one in sorted(ends)]
        found = committed_offsets(consumer, wanted, time.monotonic() + TIMEOUT_S)
    offsets: dict[str, dict[int, int]] = {}
    for one in found:
        if one.offset >= 0:
            offsets.setdefault(one.topic, {})[one.partition] = one.offset
    return offsets
