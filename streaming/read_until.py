"""Computes up to which time a batch has read all halves and ops, from the plans of two batches.

Silence means something only up to that time: a batch asks about a half, discards it, or refuses an
op whose half did not come, if it has read past the deadline in question
(docs/decisions/query.md#silence).

Spark plans batch N, then looks up the topics' ends, then plans batch N+1 up to them. So batch N+1
reads every record that the brokers had stored when batch N was planned, with two exceptions: its
limit cut the batch, or an open transaction hides records (streaming/held_back.py). A replay has the
same plans and so computes the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pyspark import SparkContext, TaskContext

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.logs import PlannedBatch
from checkback.state import NOTHING_READ, RulesHistory
from checkback.streaming.held_back import HeldBack

PROPERTY: Final = "checkback.read_until_ms"
"""Spark hands what the driver sets under it to every task of the batch: the time, then the numbers
of the partitions for which it does not hold."""


def read_until_ms(batch: PlannedBatch, before: PlannedBatch | None, batch_events_max: int) -> int:
    """Return the time up to which everything has been read with this batch.

    Args:
        batch: its plan.
        before: the plan of the batch before it, None where there is none.
        batch_events_max: the limit that it was planned under.

    Returns:
        Milliseconds since 1970, or NOTHING_READ where the plans do not tell.
    """
    if before is None or was_cut(batch, before, batch_events_max):
        return NOTHING_READ
    return min(before.timestamp_ms, batch.timestamp_ms)


def was_cut(batch: PlannedBatch, before: PlannedBatch, batch_events_max: int) -> bool:
    """Tell whether the limit may have cut the batch, so that it did not reach the topics' ends.

    Spark gives each partition its share of the limit by what is unread in it, rounded down, but at
    least one offset (KafkaMicroBatchStream.rateLimit, 4.2.0): a batch that was cut is smaller than
    the limit by less than one offset for each partition with records, and a second one where the
    share is computed a little too small.
    """
    sizes = [
        end - before.ends.get(topic, {}).get(partition, 0)
        for topic, partitions in batch.ends.items()
        for partition, end in partitions.items()
    ]
    with_records = sum(size > 0 for size in sizes)
    return with_records > 0 and sum(sizes) + 2 * with_records > batch_events_max


@dataclass(frozen=True, slots=True)
class BatchPlans:
    """The plan of a batch, and of the one before it.

    Args:
        batch: the batch's.
        before: None for the first batch of a checkpoint.
        is_first: whether it is the first batch of this run: only that one may have been tried
            before.
    """

    batch: PlannedBatch
    before: PlannedBatch | None
    is_first: bool

    @property
    def reads_nothing(self) -> bool:
        """Whether no record is in the batch."""
        return self.before is not None and self.before.ends == self.batch.ends

    def reads(self, topic: str) -> bool:
        """Tell whether a record of this topic may be in the batch."""
        before = {} if self.before is None else self.before.ends
        return before.get(topic, {}) != self.batch.ends.get(topic, {})


@dataclass(slots=True)
class ReadUntil:
    """Tells the tasks of each batch; called in the driver, before any of them runs.

    Args:
        plans: the checkpoint, which holds the plans of batches.
        rules: which limit was in force when.
        held_back: tells what the plans do not.
    """

    plans: ReadableCheckpoint
    rules: RulesHistory
    held_back: HeldBack
    _last: tuple[int, PlannedBatch] | None = field(default=None)

    def tell_tasks(self, context: SparkContext, batch_id: int) -> BatchPlans:
        """Work it out for a batch that is planned, and hand it to the tasks that run it.

        Raises:
            CheckpointError: its plan can't be read, or a note of what was held back.
            PrerequisiteError: such a note can't be written.
            BrokerError: the markers can't be read.
        """
        batch = self.plans.planned(batch_id)
        limit = self.rules.at(batch.timestamp_ms).batch_events_max
        before = self._before(batch_id)
        until_ms = read_until_ms(batch, before, limit)
        is_first, self._last = self._last is None, (batch_id, batch)
        held: Iterable[int] = ()
        if until_ms != NOTHING_READ:
            held = self.held_back.partitions(batch_id, batch.ends, until_ms, is_first=is_first)
        context.setLocalProperty(PROPERTY, ",".join(map(str, (until_ms, *sorted(held)))))
        return BatchPlans(batch, before, is_first)

    def _before(self, batch_id: int) -> PlannedBatch | None:
        if self._last is not None and self._last[0] == batch_id - 1:
            return self._last[1]
        return self.plans.planned(batch_id - 1) if batch_id > 0 else None


def read_until_of_task(half_partition: int) -> int:
    """Return up to which time all has been read of a half partition and the ops on its halves.

    Returns:
        Milliseconds since 1970; NOTHING_READ where the driver told the tasks of this batch nothing.
    """
    context = TaskContext.get()
    told = None if context is None else context.getLocalProperty(PROPERTY)
    return NOTHING_READ if told is None else told_of(told, half_partition)


def told_of(told: str, half_partition: int) -> int:
    """Take the time for a half partition out of what the driver told."""
    until_ms, *held = told.split(",")
    return NOTHING_READ if str(half_partition) in held else int(until_ms)
