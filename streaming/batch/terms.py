"""Decides the terms of each batch in the driver, and hands them to the tasks of the batch.

Silence counts only up to the time to which everything was read
(docs/decisions/query.md#silence). Offsets tell which partitions that holds for: once a batch is
planned, the driver looks where the topics end. Every record that the brokers had stored when the
batch was planned stands before those ends. So the next batch has read all of them in each partition
in which its plan reaches that far; it does not where its limit cut it, or where an open Kafka
transaction hides what follows. Such partitions are hidden: nothing is concluded from silence there.
Their time is that of the plan of the batch before, by the brokers' clock.

The brokers' answers change, but a replay has to decide as the first try did. So the checkpoint
notes the terms when they change (checkpoints/own_files/batch_terms.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Final

from pyspark import SparkContext, TaskContext

from checkback.checkpoints.files import ReadableCheckpoint
from checkback.checkpoints.own_files.batch_terms import (
    READ_TO_END,
    AccessVersion,
    BatchTerms,
    LeaderEpoch,
    OpRange,
    newest_terms,
    note_terms,
    noted_before,
    noted_of_plan,
)
from checkback.checkpoints.own_files.earlier_terms import earlier_terms
from checkback.checkpoints.own_files.relay_terms import RelayTerms
from checkback.checkpoints.spark_files.logs import Offsets, PlannedBatch
from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.read.list_offsets import NO_EPOCH, Place, by_place
from checkback.state import NO_RELAY, NOTHING_READ, RelayLimits, Rules
from checkback.streaming.relay.terms import RelayTermsOfRun
from checkback.streaming.spark.java_protocol import TERMS_PROPERTY
from checkback.streaming.start.kept_records import LogEnds

PART: Final = "|"
"""Between the three parts of the local property that Spark hands to every task of a batch:
BatchTerms.java reads the first two, the page function the third."""
PAGES_AHEAD: Final = 64
"""How many pages a noted range of halves is wider than the real one, at each end. An op may name a
half that far behind the partition's end, or in that many pages that the state has forgotten. A
wider range is noted less often: at 1,000 halves a second in a partition, every four minutes."""
CLOCK_STEP_MS: Final = 250
"""A smaller change of the difference between two clocks is no reason for a note."""
ANY_HALF: Final = OpRange(0, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class BatchPlans:
    """The plan of a batch, and of the one before it.

    Args:
        before: None for the first batch of a checkpoint.
    """

    batch: PlannedBatch
    before: PlannedBatch | None

    @property
    def reads_nothing(self) -> bool:
        """Whether no record is in the batch."""
        return self.before is not None and self.before.ends == self.batch.ends

    def read_until_ms(self, clock_ahead_ms: int) -> int:
        """Return the time up to which the batch has read everything where nothing is hidden.

        Args:
            clock_ahead_ms: how far the clock of the plans is ahead of the brokers'.

        Returns:
            Milliseconds since 1970 by the brokers' clock; NOTHING_READ for a first batch.
        """
        if self.before is None:
            return NOTHING_READ
        return min(self.before.timestamp_ms, self.batch.timestamp_ms) - clock_ahead_ms


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """The terms of a batch for the page function.

    Args:
        read_until_ms: by the brokers' clock, as BatchPlans has it.
        hidden: half partitions for which `read_until_ms` does not hold.
        clock_ahead_ms: what the batch's time has to be lessened by to be the brokers'.
    """

    rules: Rules
    read_until_ms: int = NOTHING_READ
    hidden: frozenset[int] = frozenset()
    clock_ahead_ms: int = 0
    relay: Mapping[int, RelayTerms] = field(default_factory=dict, hash=False)

    def read_until_of(self, half_partition: int) -> int:
        """Return up to which time all halves of a partition, and the ops on them, were read."""
        if half_partition in self.hidden:
            return NOTHING_READ
        relay = self.relay.get(half_partition)
        if relay is None or not relay.is_relayed:
            return self.read_until_ms
        if relay.read_until_ms is None:
            return NOTHING_READ
        return min(self.read_until_ms, relay.read_until_ms)

    def limits_of(self, half_partition: int) -> RelayLimits:
        """Return what the pages of a partition may not do because of relays."""
        relay = self.relay.get(half_partition)
        return NO_RELAY if relay is None else relay.limits

    def waits_for_mark(self, half_partition: int) -> bool:
        """Return whether time goes on in a partition by the marks of a relay."""
        relay = self.relay.get(half_partition)
        return relay is not None and relay.is_relayed

    def to_property(self, op_ranges: Mapping[int, OpRange]) -> str:
        """Return the local property that hands these terms to the tasks of a batch."""
        partitions = range(max((*op_ranges, *self.relay), default=-1) + 1)
        ranges = ",".join(
            ":".join(map(str, (*op_ranges.get(at, ANY_HALF), *self._relayed(at))))
            for at in partitions
        )
        document = {
            "rules": asdict(self.rules),
            "read_until_ms": self.read_until_ms,
            "hidden": sorted(self.hidden),
            "clock_ahead_ms": self.clock_ahead_ms,
        }
        if self.relay:
            document["relay"] = {at: relay.to_data() for at, relay in self.relay.items()}
        return PART.join((str(self.rules.max_message_bytes), ranges, json.dumps(document)))

    def _relayed(self, partition: int) -> Iterator[int]:
        relay = self.relay.get(partition)
        for span in () if relay is None else relay.spans:
            yield span.ops_from
            yield 2**63 - 1 if span.ops_until is None else span.ops_until

    @classmethod
    def from_property(cls, text: str) -> TaskTerms:
        """Return the terms in a local property that `to_property` made."""
        document = json.loads(text.split(PART, 2)[2])
        rules, relay = Rules.from_stored(document.pop("rules")), document.pop("relay", {})
        return cls(
            rules,
            **{**document, "hidden": frozenset(document["hidden"])},
            relay={int(at): RelayTerms.from_data(data) for at, data in relay.items()},
        )


def terms_of_task() -> TaskTerms:
    """Return the terms of the batch that this task belongs to."""
    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(TERMS_PROPERTY)
    if text is None:
        raise LookupError(f"{TERMS_PROPERTY} is not set: a page was called outside of a batch.")
    return _parsed(text)


_parsed = lru_cache(maxsize=2)(TaskTerms.from_property)


def hidden_partitions(ends: Offsets, stored: Mapping[Place, int]) -> frozenset[int]:
    """Return the half partitions with stored records that may be unread.

    An op, and a feedback, is in the partition of its half's number.

    Args:
        stored: where the partitions ended; one that is missing counts as not read.
    """
    read = by_place(ends)
    return frozenset(place[1] for place, end in read.items() if end < stored.get(place, end + 1))


def epochs_after(
    plans: BatchPlans, epochs: Mapping[Place, LeaderEpoch], ends: LogEnds
) -> dict[Place, LeaderEpoch]:
    """Return the leader epochs that are known now; where brokers are silent, the last ones."""
    read = {} if plans.before is None else by_place(plans.before.ends)
    last = {at: LeaderEpoch(of, min(to, read.get(at, 0))) for at, (of, to) in epochs.items()}
    told = ((place, end.leader_epoch) for place, end in ends.items())
    return last | {at: LeaderEpoch(of, READ_TO_END) for at, of in told if of != NO_EPOCH}


@dataclass(slots=True)
class TermsOfRun:
    """Decides the terms of each batch; one object for each run of a query.

    Args:
        plans: reads the same checkpoint, its plans from local files where it has them.
        log_ends: returns where partitions end now, nothing if that is unknown.
        require_kept: refuses partitions that lost what was read, as KeptRecords.require does.
        first_pages: returns the first page of each half partition of which the state remembers
            something.
        clock_ahead_ms: returns how far this machine's clock is ahead of the brokers'.
        relay: reads what relays say; None where none ever took an op.
    """

    store: CheckpointStore
    plans: ReadableCheckpoint
    rules: Rules
    access: AccessVersion
    log_ends: Callable[[Collection[Place]], LogEnds]
    require_kept: Callable[[Mapping[Place, int], Mapping[Place, LeaderEpoch], LogEnds], LogEnds]
    first_pages: Callable[[], Mapping[int, int]]
    clock_ahead_ms: Callable[[], int]
    is_begun: Callable[[int], bool]
    half_topic: str
    page_size: int
    relay: RelayTermsOfRun | None = None
    _last: tuple[int, PlannedBatch] | None = field(default=None, init=False)
    _terms: BatchTerms | None = field(default=None, init=False)
    _stored: Mapping[Place, int] = field(default_factory=dict, init=False)
    """Where the partitions ended when the batch before was planned, or a little later."""

    def set_for_tasks(self, context: SparkContext, batch_id: int, plans: BatchPlans) -> None:
        """Decide the terms of a batch that is planned, and hand them to the tasks that run it.

        Called in the driver, before any of the tasks runs.

        Raises:
            CheckpointError: a note can't be read, or Kafka lost records that were read.
            PrerequisiteError: it can't be written.
            BrokerError: the markers can't be read.
        """
        terms = self._of_batch(batch_id, plans)
        until_ms = plans.read_until_ms(terms.clock_ahead_ms)
        task = TaskTerms(
            terms.rules, until_ms, terms.hidden, terms.clock_ahead_ms, dict(terms.relay)
        )
        context.setLocalProperty(TERMS_PROPERTY, task.to_property(terms.op_ranges))

    def plans_of(self, batch_id: int) -> BatchPlans:
        """Return the plan of a batch and of the one before it; called once for each batch."""
        batch = self.plans.planned(batch_id)
        if self._last is not None and self._last[0] == batch_id - 1:
            before: PlannedBatch | None = self._last[1]
        else:
            before = self.plans.planned(batch_id - 1) if batch_id > 0 else None
        self._last = batch_id, batch
        return BatchPlans(batch, before)

    @property
    def relayed(self) -> Mapping[int, RelayTerms]:
        """Which ops relays take, by the terms of the last batch."""
        return {} if self._terms is None else self._terms.relay

    def _of_batch(self, batch_id: int, plans: BatchPlans) -> BatchTerms:
        last, stored_before = self._terms, self._stored
        noted = newest_terms(self.store) if last is None else last
        epochs = {} if noted is None else noted.leader_epochs
        ends = self._kept(plans, epochs)
        self._stored = stored = {place: end.offset for place, end in ends.items()}
        if last is None:
            found = self._begun_with(batch_id, plans)
            terms = self._fresh(batch_id, plans, None, stored) if found is None else found
        else:
            terms = self._fresh(batch_id, plans, last, stored_before)
        terms = replace(terms, leader_epochs=epochs_after(plans, epochs, ends))
        if terms != last:
            planned_ms, is_first = plans.batch.timestamp_ms, last is None
            terms = note_terms(self.store, batch_id, planned_ms, terms, is_first=is_first)
        self._terms = terms
        return terms

    def _kept(self, plans: BatchPlans, epochs: Mapping[Place, LeaderEpoch]) -> LogEnds:
        """Return where the partitions end; refuse the batch where Kafka lost what was read."""
        planned = by_place(plans.batch.ends)
        ends = self.require_kept(planned, {}, self.log_ends(planned))
        # The records of the batch itself are read after this.
        read = {} if plans.before is None else by_place(plans.before.ends)
        return self.require_kept(read, epochs, ends)

    def _begun_with(self, batch_id: int, plans: BatchPlans) -> BatchTerms | None:
        """Return the terms of an earlier try of the first batch of this run, None without one."""
        noted = noted_of_plan(self.store, batch_id, plans.batch.timestamp_ms)
        if noted is None:
            if not self.is_begun(batch_id):
                return None
            noted = noted_before(self.store, batch_id) or earlier_terms(
                self.store, batch_id, plans.batch, plans.before
            )
        if noted is None:
            raise CheckpointError(
                f"Batch {batch_id} is written in part, and what it was decided by is gone: "
                "no note of it is left in the checkpoint.",
                remedy="Restore the checkpoint from a backup, or run `checkback checkpoint "
                "rebuild`; see `checkback docs recovering`.",
                batch_id=batch_id,
            )
        return replace(noted, access=self.access)

    def _fresh(
        self,
        batch_id: int,
        plans: BatchPlans,
        last: BatchTerms | None,
        stored_before: Mapping[Place, int],
    ) -> BatchTerms:
        ahead_ms = max(0, self.clock_ahead_ms())
        ranges = self._op_ranges(plans)
        if last is not None:
            if abs(ahead_ms - last.clock_ahead_ms) <= CLOCK_STEP_MS:
                ahead_ms = last.clock_ahead_ms
            if still_hold(last.op_ranges, ranges, self._margin):
                ranges = last.op_ranges
        if last is None or ranges is not last.op_ranges:
            ranges = {at: OpRange(first, end + self._margin) for at, (first, end) in ranges.items()}
        relay, ends = self._relay_terms(batch_id, plans.batch.ends, last), plans.batch.ends
        if self.relay is not None:
            ends = self.relay.ends_of_job(ends, relay)
        hidden = hidden_partitions(ends, stored_before)
        return BatchTerms(self.rules, self.access, hidden, ranges, ahead_ms, relay=relay)

    def _relay_terms(
        self, batch_id: int, ends: Offsets, last: BatchTerms | None
    ) -> dict[int, RelayTerms]:
        if self.relay is None:
            return {}
        if last is not None:
            return self.relay.of_batch(ends, last.relay)
        # The first batch of a run looks at no mark: a job that was replaced may decide it by its
        # own last note, and store the state.
        noted = noted_before(self.store, batch_id)
        return self.relay.next_terms(ends, {} if noted is None else noted.relay, {})

    def _op_ranges(self, plans: BatchPlans) -> Mapping[int, OpRange]:
        """Return the halves that an op can name now; any where the partition's end is unknown."""
        topic, pages = self.half_topic, self.first_pages()
        read = {} if plans.before is None else plans.before.ends.get(topic, {})

        def first(partition: int) -> int:
            if partition not in read:
                return 0
            page = pages.get(partition)
            return read[partition] if page is None else min(page * self.page_size, read[partition])

        ends = {at: end for (name, at), end in self._stored.items() if name == topic}
        return {at: OpRange(first(at), end) for at, end in ends.items()}

    @property
    def _margin(self) -> int:
        return PAGES_AHEAD * self.page_size


def still_hold(noted: Mapping[int, OpRange], found: Mapping[int, OpRange], margin: int) -> bool:
    """Return whether noted ranges still hold. While brokers are silent, every op passes.

    Args:
        noted: with a margin behind each end.
        found: the ranges now, without one.
        margin: by how much a first offset may move before it is worth a note.
    """
    if not found:
        return not noted
    return all(
        at in noted and end <= noted[at].end and first < noted[at].first + margin
        for at, (first, end) in found.items()
    )
