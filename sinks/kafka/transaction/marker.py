"""The batch marker: the batch that a state partition writes next.

It is a committed consumer offset on the settled topic's partition of the same number, moved inside
the Kafka transaction that holds the batch's output: output and marker become visible together or
not at all. Its metadata says when it was last moved, so that it can be renewed before the brokers
forget idle groups (offsets.retention.minutes, 7 days by default).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from checkback.protocol.errors import BrokerError, CheckpointError, FencedError
from checkback.sinks.kafka.cluster.transient_errors import COORDINATOR_MOVES, retry_transient
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.settings import SinkSettings

RENEWAL_MS: Final = 3_600_000
BY_HAND: Final = -1
"""Stands in place of an epoch, and is lower than any."""
UNREAD: Final = COORDINATOR_MOVES | {KafkaError._TIMED_OUT}
"""The group's coordinator is being found or is loading; librdkafka hands this to the caller."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A state partition's marker.

    Args:
        next_batch: the first batch that has not been written.
        moved_at_ms: when it was last moved.
        epoch: number of the job's epoch that moved it; see epoch.py. BY_HAND: no job did.
        rows_done: how many rows of next_batch are written, where it is written in several
            transactions; see sinks/partition/parts.py.
    """

    next_batch: int
    moved_at_ms: int
    epoch: int = 0
    rows_done: int = 0

    @property
    def untouched_batch(self) -> int:
        """The first batch of which nothing is written."""
        return self.next_batch + (self.rows_done > 0)

    def has_any_of(self, batch_id: int) -> bool:
        """Return whether a batch, or a part of it, is written."""
        return self.untouched_batch > batch_id

    @property
    def is_by_hand(self) -> bool:
        """Whether a person or another tool set it: its metadata is not Checkback's."""
        return self.epoch == BY_HAND

    def is_due_for_renewal(self, now_ms: int) -> bool:
        """Return whether it should be moved although the batch has no output.

        Also if its time lies in the future: this machine's clock was set back then, and the
        brokers' perhaps not.
        """
        return abs(now_ms - self.moved_at_ms) >= RENEWAL_MS


class MarkerStore:
    """Reads markers, and makes the offsets that move them."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._topic = settings.topics.settled
        # With this, reading waits for a transaction that is about to move a marker (KIP-447).
        self._consumer = self._open("read_committed")
        self._hasty: Consumer | None = None

    def read(self, state_partitions: list[int], timeout_s: float = 30.0) -> dict[int, Marker]:
        """Return the markers of those state partitions that have one."""
        return self._read(self._consumer, state_partitions, timeout_s)

    def read_hastily(
        self, state_partitions: list[int], timeout_s: float = 30.0
    ) -> dict[int, Marker]:
        """Read the markers, without those that an open transaction is about to move.

        This is for a look before fencing: the open transaction may belong to a killed predecessor,
        and only the fence ends it.
        """
        if self._hasty is None:
            self._hasty = self._open("read_uncommitted")
        return self._read(self._hasty, state_partitions, timeout_s)

    def _open(self, isolation: str) -> Consumer:
        return Consumer(
            {
                **self._settings.connection,
                "group.id": self._settings.marker_group,
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )

    def _read(
        self, consumer: Consumer, state_partitions: list[int], timeout_s: float
    ) -> dict[int, Marker]:
        wanted = [TopicPartition(self._topic, partition) for partition in state_partitions]
        try:
            found = committed_offsets(consumer, wanted, time.monotonic() + timeout_s)
        except KafkaException as error:
            cause = cause_of(error)
            raise BrokerError(
                f"The batch markers can't be read: {cause.str()}.",
                remedy="Check the brokers, and the pipeline's rights on its groups.",
                code=cause.name(),
            ) from error
        return {one.partition: _marker(one) for one in found if one.offset >= 0}

    def offset(self, state_partition: int, marker: Marker) -> TopicPartition:
        """Return the marker as the offset to send to a transaction."""
        said = {"moved_at_ms": marker.moved_at_ms, "epoch": marker.epoch}
        if marker.rows_done:
            said["rows_done"] = marker.rows_done
        metadata = json.dumps(said)
        return TopicPartition(self._topic, state_partition, marker.next_batch, metadata)

    def group_metadata(self) -> Any:
        """Return the group's metadata for send_offsets_to_transaction."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        if self._hasty is not None:
            self._hasty.close()


def markers_of(
    settings: SinkSettings, state_partitions: int, *, is_hasty: bool = False
) -> dict[int, Marker]:
    """Return the markers that there are, as `read` or `read_hastily` does, by a new connection."""
    with closing(MarkerStore(settings)) as store:
        read = store.read_hastily if is_hasty else store.read
        return read(list(range(state_partitions)))


def committed_offsets(
    consumer: Consumer, wanted: list[TopicPartition], until_s: float
) -> list[TopicPartition]:
    """Return what a group has committed; ask again while its coordinator is found or loads.

    Raises:
        KafkaException: the brokers do not answer, or refuse, be it for one partition only.
    """
    return retry_transient(
        lambda: _committed(consumer, wanted, max(1.0, until_s - time.monotonic())),
        until_s - time.monotonic(),
        codes=UNREAD,
    )


def _committed(
    consumer: Consumer, wanted: list[TopicPartition], timeout_s: float
) -> list[TopicPartition]:
    found = consumer.committed(wanted, timeout_s)
    for one in found:
        if one.error is not None:  # else it would pass for one that has nothing committed
            raise KafkaException(one.error)
    return found


def _marker(found: TopicPartition) -> Marker:
    """Return the marker of a committed offset; one without Checkback's metadata was set by hand."""
    try:
        said = json.loads(found.metadata or "")
        moved_at_ms, epoch, rows = said["moved_at_ms"], said["epoch"], said.get("rows_done", 0)
        return Marker(found.offset, int(moved_at_ms), int(epoch), int(rows))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return Marker(found.offset, 0, BY_HAND)


def require_own_epoch(marker: Marker | None, epoch: int) -> None:
    """Refuse to write for an epoch that a later one has fenced.

    Raises:
        FencedError: the marker was moved by a later epoch.
    """
    if marker is not None and marker.epoch > epoch:
        raise FencedError(
            f"Another job has taken over this checkpoint: its epoch is {marker.epoch}, this "
            f"one's {epoch}.",
            remedy="Let only one run; see `checkback docs bad-days`.",
            epoch=epoch,
            taken_over_by=marker.epoch,
        )


def require_not_by_hand(markers: Mapping[int, Marker], group: str) -> None:
    """Refuse markers that were set by hand: they do not say which batches were written.

    Raises:
        CheckpointError: names the state partitions.
    """
    set_by_hand = [number for number, marker in sorted(markers.items()) if marker.is_by_hand]
    if set_by_hand:
        raise CheckpointError(
            f"The markers of state partitions {set_by_hand} were set by hand: no job wrote these "
            f"offsets of consumer group {group}. Whether the next batch was written can't be "
            "known.",
            remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`. Leave "
            "that group out when offsets are reset.",
            state_partitions=set_by_hand,
            group=group,
        )
