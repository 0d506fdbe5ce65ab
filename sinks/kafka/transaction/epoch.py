"""A job's epoch: the number that decides which of two jobs may write over a checkpoint.

Every start takes the next number and writes it into the markers of all state partitions. A task
that finds a later number than its own stops, so of two jobs over one checkpoint the younger writes
and the older ends. The number is taken in a Kafka transaction of state partition 0; its producer is
initialised before the marker is read. Of two starts at the same moment one is fenced and looks
again, so no number is taken twice.

It also ends the transactions that a killed predecessor left open, before anything is read: readers
need not wait for their timeout.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from checkback.protocol.errors import BrokerError, CheckpointError, FencedError
from checkback.sinks.kafka.transaction.errors import ProducerLostError
from checkback.sinks.kafka.transaction.marker import (
    Marker,
    MarkerStore,
    require_not_by_hand,
    require_own_epoch,
)
from checkback.sinks.kafka.transaction.producer import MarkedProducer
from checkback.sinks.settings import SinkSettings

LATEST_EPOCH: Final = 2**62
"""Later than any epoch of a job. A producer with it may write over every marker, except one that
was fenced for good."""
RETIRED: Final = LATEST_EPOCH + 1
TRIES: Final = 10
TRIES_S: Final = 150.0
"""How long a start tries to take one state partition; a try without an answer takes three
minutes."""
PARALLEL: Final = 8
LOOK_TIMEOUT_S: Final = 2.0


def begin_epoch(
    settings: SinkSettings, partitions: int, marked: Collection[int], next_batch: int
) -> SinkSettings:
    """Fence the checkpoint's last writer; return the settings to write with.

    Args:
        settings: the sink's; their epoch does not matter.
        marked: state partitions that had a marker when the start looked.
        next_batch: the next batch for the marker of a state partition that never had one.

    Raises:
        FencedError: a still younger job took over meanwhile.
        CheckpointError: the checkpoint was replaced, or a marker vanished or was set by hand since
            the start looked.
        BrokerError: Kafka did not take it.
    """
    first = _Fencing(settings, marked, next_batch).take(0, None)
    rest = _Fencing(settings, marked, next_batch)
    with ThreadPoolExecutor(PARALLEL) as pool:
        for _ in pool.map(lambda number: rest.take(number, first), range(1, partitions)):
            pass
    return replace(settings, epoch=first)


def retire(settings: SinkSettings, partitions: int) -> None:
    """Fence every job, running or future, over the checkpoint of these settings.

    This is for a checkpoint that was replaced: a start over it is then refused, and a job that
    still runs over it ends.
    """
    for number in range(partitions):
        _Fencing(settings, (), 0).take(number, RETIRED)


@dataclass(frozen=True, slots=True)
class _Fencing:
    settings: SinkSettings
    marked: Collection[int]
    next_batch: int

    def take(self, state_partition: int, epoch: int | None) -> int:
        """Write an epoch into one marker; None: the epoch after the one that the marker has."""
        lost, until_s = "", time.monotonic() + TRIES_S
        for _ in range(TRIES):
            try:
                return self._try(state_partition, epoch)
            except ProducerLostError as error:
                lost = error.message
            if time.monotonic() > until_s:
                break
        raise BrokerError(
            f"State partition {state_partition} could not be taken over: {lost}",
            remedy="Check the brokers, and that no other job is starting over the same checkpoint.",
            state_partition=state_partition,
        )

    def _try(self, state_partition: int, epoch: int | None) -> int:
        let_in = replace(self.settings, epoch=RETIRED if epoch == RETIRED else LATEST_EPOCH)
        producer = _open(let_in, state_partition)
        try:
            found = producer.marker
            if found is None and state_partition in self.marked:
                raise _vanished_marker_error(state_partition)
            if found is not None and epoch != RETIRED:
                require_not_by_hand({state_partition: found}, self.settings.marker_group)
            found = found or Marker(self.next_batch, 0)
            taken = found.epoch + 1 if epoch is None else epoch
            require_own_epoch(found, taken)
            producer.begin()
            now_ms = int(time.time() * 1_000)
            producer.commit_marker(replace(found, moved_at_ms=now_ms, epoch=taken))
        finally:
            producer.close()
        return taken


@dataclass(slots=True)
class EpochWatch:
    """Ends an older job once a younger one has taken over, also when it has nothing to write."""

    settings: SinkSettings
    _markers: MarkerStore | None = field(default=None)

    def require_own(self) -> None:
        """Look at the markers; do nothing if the brokers do not answer."""
        if self._markers is None:
            self._markers = MarkerStore(self.settings)
        with suppress(BrokerError):
            # Number 0 is the first that a younger job takes.
            found = self._markers.read_hastily([0], LOOK_TIMEOUT_S)
            require_own_epoch(found.get(0), self.settings.epoch)

    def close(self) -> None:
        """Close the connection."""
        if self._markers is not None:
            self._markers.close()
            self._markers = None


def _open(settings: SinkSettings, state_partition: int) -> MarkedProducer:
    try:
        return MarkedProducer(settings, state_partition)
    except FencedError as error:
        raise CheckpointError(
            "This checkpoint was replaced by a rebuilt one: no job may write over it any more.",
            remedy="Use the checkpoint that was rebuilt.",
            query_id=settings.query_id,
        ) from error


def _vanished_marker_error(state_partition: int) -> CheckpointError:
    return CheckpointError(
        f"The marker of state partition {state_partition} vanished while the job was starting.",
        remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
        state_partition=state_partition,
    )
