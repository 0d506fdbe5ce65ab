"""The batch marker: which batch a state partition has to write next.

It is a committed consumer offset on the settled topic's partition of the same number, moved inside
the Kafka transaction that holds the batch's output: output and marker become visible together or
not at all. Its metadata says when it was last moved, so that it can be renewed before the brokers
forget idle groups (offsets.retention.minutes, 7 days by default).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from checkback.protocol.errors import BrokerError, FencedError
from checkback.sinks.kafka_error import cause_of
from checkback.sinks.settings import SinkSettings

RENEWAL_MS: Final = 3_600_000
COORDINATOR_PAUSE_S: Final = 0.1
COORDINATOR_MOVES: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError._TIMED_OUT,
    }
)
"""The group's coordinator is being found or is loading; librdkafka hands this to the caller."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A state partition's marker.

    Args:
        next_batch: the first batch that has not been written.
        moved_at_ms: when it was last moved.
        session: number of the job's session that moved it; see sinks.session.
    """

    next_batch: int
    moved_at_ms: int
    session: int = 0

    def is_due_for_renewal(self, now_ms: int) -> bool:
        """Tell whether it should be moved although the batch has no output.

        Also when it was moved in the future: this clock was set back, the brokers' perhaps not.
        """
        return abs(now_ms - self.moved_at_ms) >= RENEWAL_MS


class MarkerStore:
    """Reads markers, and makes the offsets that move them.

    Args:
        settings: whose markers.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._topic = settings.topics.settled
        self._consumer = Consumer(
            {
                "log_level": 0,  # what goes wrong is raised
                **settings.connection,
                "group.id": settings.marker_group,
                "enable.auto.commit": False,
                # With this, reading waits for a transaction that is being committed (KIP-447).
                "isolation.level": "read_committed",
            }
        )

    def read(self, state_partitions: list[int], timeout_s: float = 30.0) -> dict[int, Marker]:
        """Return the markers of those state partitions that have one."""
        wanted = [TopicPartition(self._topic, partition) for partition in state_partitions]
        found = self._committed(wanted, time.monotonic() + timeout_s)
        return {one.partition: _marker(one) for one in found if one.offset >= 0}

    def _committed(self, wanted: list[TopicPartition], until_s: float) -> list[TopicPartition]:
        while True:
            try:
                return self._consumer.committed(wanted, max(1.0, until_s - time.monotonic()))
            except KafkaException as error:
                cause = cause_of(error)
                if cause.code() not in COORDINATOR_MOVES or time.monotonic() > until_s:
                    raise BrokerError(
                        f"The batch markers can't be read: {cause.str()}.",
                        remedy="Check the brokers, and the pipeline's rights on its groups.",
                        code=cause.name(),
                    ) from error
                time.sleep(COORDINATOR_PAUSE_S)

    def offset(self, state_partition: int, marker: Marker) -> TopicPartition:
        """Return the marker as the offset to send to a transaction."""
        metadata = json.dumps({"moved_at_ms": marker.moved_at_ms, "session": marker.session})
        return TopicPartition(self._topic, state_partition, marker.next_batch, metadata)

    def group_metadata(self) -> Any:
        """Return what send_offsets_to_transaction wants to know of the group."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Give the connection up."""
        self._consumer.close()


def _marker(found: TopicPartition) -> Marker:
    """Return the marker out of a committed offset; the first release wrote no session."""
    said = json.loads(found.metadata) if found.metadata else {}
    return Marker(found.offset, int(said.get("moved_at_ms", 0)), int(said.get("session", 0)))


def require_own_session(marker: Marker | None, session: int) -> None:
    """Refuse to write for a session that a later one has taken over from.

    Raises:
        FencedError: the marker was moved by a later session.
    """
    if marker is not None and marker.session > session:
        raise FencedError(
            f"Another job has taken over this checkpoint: its session is {marker.session}, this "
            f"one's {session}.",
            remedy="Let only one run; see docs/operating/bad-days.md.",
            session=session,
            taken_over_by=marker.session,
        )
