"""The relay: reads ops and halves, ends clean, young transactions, passes the rest (rules 1 to 11).

docs/decisions/relay.md has the rules, and why they hold.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.protocol.configuration import ORDER_BY_KEY, Settings
from checkback.protocol.decided import (
    OpKind,
    delivered_headers,
    note_headers,
    note_value,
    passed_headers,
)
from checkback.protocol.errors import PrerequisiteError
from checkback.protocol.topics import (
    TopicNames,
    around_half_bytes,
    relay_group,
)
from checkback.relay.decided_log import GROUP_OPS_MAX, DecidedPartition, reading_before
from checkback.relay.finals import Finals
from checkback.relay.inputs import Inputs, Read
from checkback.relay.memory import HELD_S, HalfMemory, HeldHalf
from checkback.relay.partition import NOT_YET, JobPosition, ReadOp, RelayedOp, RelayPartition
from checkback.relay.questions import JobOffsets, Question, ends
from checkback.relay.reading import RecordRules, parsed_op
from checkback.relay.turns import (
    PRODUCERS,
    GroupFailedError,
    PartitionsLostError,
    StoredMark,
    Turns,
)
from checkback.sinks.kafka.cluster.described_topics import describe_topics
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory, batch_size
from checkback.sinks.records.sink_record import NOW, SinkRecord
from checkback.sinks.records.source_record import is_unreadable, readable, readable_op

GROUP_BYTES_MAX: Final = 16_000_000
"""Bytes of one transaction; a larger half makes a group of its own."""
MARK_S: Final = 1.0
IDLE_S: Final = 0.1
ASK_JOB_S: Final = 0.2
"""The least time between two questions for how far the job has come."""
GROUP_S: Final = 0.008
"""The least time between the starts of two groups: a group costs its requests, however few ops it
has."""
AFTER_SEVERAL_S: Final = 0.014
"""The same after a group of several ops: more than a hundred a second come, and gather."""
AWAITED_S: Final = 0.002
"""How long one poll waits while an op waits for its half."""
ASK_AFTER_S: Final = 0.005
"""How long an op waits for its half before the half partition's end is asked for."""
CLOCK_SAMPLES: Final = 16
FAILED_PAUSE_S: Final = 0.2
TOPIC_LOOK_S: Final = 3.0
"""How long a look at real topics may stop the loop; without an answer the job gets the commit."""
OPS_WAITING_MAX: Final = 10_000
OP_BYTES_WAITING_MAX: Final = 64_000_000
"""With more waiting ops or bytes in its share, a partition's reading pauses until only half of them
wait."""


@dataclass(slots=True)
class Counts:
    """What a relay has done since it started.

    Attributes:
        decided: ops by what became of them: the kind, or why they were passed.
        groups: transactions with ops.
        failed: transactions that failed.
    """

    decided: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    failed: int = 0


@dataclass(slots=True)
class BrokerTime:
    """The brokers' time, learned from stored marks; never ahead of their clocks."""

    _ahead_ms: deque[float] = field(default_factory=lambda: deque(maxlen=CLOCK_SAMPLES))

    def learn(self, stored_ms: int, now_s: float) -> None:
        """Note when a broker stored a record, in its time, and that it was before now."""
        self._ahead_ms.append(stored_ms - now_s * 1_000)

    def at(self, then_s: float) -> int:
        """Return the brokers' time for a time of the steady clock; 0 while it is unknown."""
        return int(max(self._ahead_ms) + then_s * 1_000) if self._ahead_ms else 0


@dataclass(slots=True)
class Relay:
    """One relay.

    Args:
        instance: the relay's number; each relay of a deployment needs its own.
        rules: by which records are accepted.
    """

    settings: Settings
    instance: int
    rules: RecordRules
    counts: Counts = field(default_factory=Counts)
    partitions: dict[int, RelayPartition] = field(default_factory=dict)
    _names: TopicNames = field(init=False)
    _admin: AdminClient = field(init=False)
    _inputs: Inputs = field(init=False)
    _job_offsets: JobOffsets = field(init=False)
    _threads: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor)
    _op_ends: Question[dict[int, int]] = field(init=False)
    _half_ends: Question[dict[int, int]] = field(init=False)
    _job: Question[dict[int, JobPosition]] = field(init=False)
    _turns: Turns = field(init=False)
    _finals: Finals = field(init=False)
    _time: BrokerTime = field(default_factory=BrokerTime)
    _rebalances: int = 0
    _unplaced: list[int] = field(default_factory=list)
    """Assigned partitions of which no position is known yet."""
    _starts: dict[int, _Start] = field(default_factory=dict)
    _failed: list[RelayedOp] = field(default_factory=list)
    _mark_s: float = 0.0
    _next_group_s: float = 0.0

    def __post_init__(self) -> None:
        settings, connection = self.settings, self.settings.connection()
        self._names = names = settings.topics
        bytes_max = settings.record_bytes_max
        ids = [
            f"{settings.application_id}-relay-{self.instance}-{turn}" for turn in range(PRODUCERS)
        ]
        self._admin = AdminClient(connection)
        read = JobOffsets(connection, settings.application_id, names.decided, names.half)
        self._job_offsets, threads = read, self._threads
        self._op_ends = Question(threads, partial(ends, self._admin, names.op))
        self._half_ends = Question(threads, partial(ends, self._admin, names.half))
        self._job = Question(threads, read.of_partitions, ASK_JOB_S)
        batch_bytes_max = batch_size(around_half_bytes(settings.max_message_bytes))
        self._turns = Turns(connection, ids, names.decided, bytes_max, batch_bytes_max)
        directory = TopicDirectory(self._admin, shortage_wait_s=0.0, answer_s=TOPIC_LOOK_S)
        self._finals = Finals(names, directory, bytes_max)
        self._inputs = Inputs(connection, relay_group(settings.application_id), names.op)

    @property
    def _is_ordered(self) -> bool:
        return self.settings.order_of_pages == ORDER_BY_KEY

    @property
    def is_ready(self) -> bool:
        """Whether the relay serves its partitions; some may still wait for a start of the job."""
        assigned = self._inputs.assigned
        if self._inputs.metadata is None or (assigned and not self.partitions):
            return False
        return all(start.log.is_read for start in self._starts.values())

    @property
    def memory_bytes(self) -> int:
        """About how much memory the held halves take."""
        return sum(partition.memory.bytes_held for partition in self.partitions.values())

    def backlog(self) -> tuple[int, float]:
        """Return how many ops wait, and for how long the oldest has."""
        heads = [partition.ops[0].read_s for partition in self.partitions.values() if partition.ops]
        waiting = sum(len(partition.ops) for partition in self.partitions.values())
        return waiting, time.monotonic() - min(heads) if heads else 0.0

    def use_rules(self, rules: RecordRules) -> None:
        """Use other rules from now on; drop the halves that the former rules accepted."""
        self.rules = rules
        for partition in self.partitions.values():
            partition.memory.clear()

    def step(self) -> None:
        """Read what is there, and write one group of ops, if any, and marks that are due.

        Raises:
            PrerequisiteError: the job has taken the ops back.
            FencedError: another relay has the same number.
            BrokerError: the brokers refuse, or do not answer in time.
        """
        time.sleep(max(0.0, self._next_group_s - time.monotonic()))
        waits = self._failed or any(partition.ops for partition in self.partitions.values())
        self._take(self._inputs.poll(AWAITED_S if waits else IDLE_S))
        if self._rebalances != self._inputs.rebalances:
            self._begin_again()
        if self._unplaced or self._starts:
            self._start()
        now_s = time.monotonic()
        self._learn_half_ends(now_s)
        self._learn_job()
        group = self._group(now_s)
        self._pause_full_partitions()
        is_due = self._marks_are_due(now_s)
        if group or is_due:
            self._next_group_s = now_s + (AFTER_SEVERAL_S if len(group) > 1 else GROUP_S)
            self._write(group, with_all_marks=is_due)

    def close(self) -> None:
        """Leave the group, and close all connections."""
        self._turns.close()
        self._inputs.close()
        self._threads.shutdown()
        self._job_offsets.close()

    # Reading

    def _take(self, reads: Iterable[Read]) -> None:
        """Take what was read."""
        now_s = time.monotonic()
        half, decided = self._names.half, self._names.decided
        for read in reads:
            found = self.partitions.get(read.partition)
            if read.topic == decided:
                if read.partition in self._starts:
                    self._starts[read.partition].log.take(read.offset, read.record)
            elif found is not None:
                take = self._take_half if read.topic == half else self._take_op
                take(read, found, now_s)

    def _pause_full_partitions(self) -> None:
        """Pause the reading of partitions with many waiting ops, and resume it."""
        share = len(self.partitions) or 1
        for number, partition in self.partitions.items():
            full = share * max(
                len(partition.ops) / OPS_WAITING_MAX, partition.op_bytes / OP_BYTES_WAITING_MAX
            )
            if full > 1 if not partition.is_paused else full < 1 / 2:
                partition.is_paused = not partition.is_paused
                self._inputs.set_paused(number, is_paused=partition.is_paused)

    def _take_op(self, read: Read, found: RelayPartition, now_s: float) -> None:
        number, offset, record = read.partition, read.offset, read.record
        if record is None:
            found.ops_read_to = max(found.ops_read_to, offset)
        elif offset >= found.next_op:
            op, size = readable_op(record, self.settings.max_message_bytes)
            parsed = None if is_unreadable(op) else parsed_op(op)
            found.read_op(ReadOp(number, offset, op, parsed, now_s, size))

    def _take_half(self, read: Read, found: RelayPartition, now_s: float) -> None:
        if read.record is None:
            found.read_halves_to(read.offset)
        else:
            record = readable(read.record)
            identity = None if self.settings.reject_transactions else self.rules.half(record)
            half = None if identity is None else HeldHalf(record, identity, now_s)
            found.read_half(read.offset, half)

    # A start of partitions (rules 6 and 9)

    def _begin_again(self) -> None:
        self._rebalances = self._inputs.rebalances
        for kept in (self.partitions, self._failed, self._starts):
            kept.clear()
        self._unplaced = [*self._inputs.assigned]

    def _start(self) -> None:
        """Take the next step of the start: the position, then ends, then who takes the ops."""
        numbers = self._unplaced
        if numbers:
            positions = self._inputs.positions()
            if positions is None or self._rebalances != self._inputs.rebalances:
                return
            names, admin = self._names, self._admin
            halves, decided, ops = (
                ends(admin, topic, numbers) for topic in (names.half, names.decided, names.op)
            )
            topic_id = describe_topics(admin, [names.op])[names.op].topic_id
            self._starts = {
                at: _Start(
                    positions.get(at, 0), halves[at], ops[at], reading_before(decided[at], topic_id)
                )
                for at in numbers
            }
            self._unplaced = []
        read = [number for number, start in self._starts.items() if start.log.is_read]
        if any([bool(numbers), *map(self._go_on, read)]):
            self._read_on()

    def _go_on(self, number: int) -> bool:
        """Serve a partition that relays take, or begin earlier where no record says who takes it.

        Returns:
            Whether something else is to be read than before.
        """
        start = self._starts[number]
        log = start.log
        if log.is_closed:
            raise PrerequisiteError(
                f"The job takes the ops of partition {number} itself: its last start was "
                "without relay.",
                remedy="Start the job with relay = true, then the relay.",
                partition=number,
            )
        if log.taken is None:
            whole = reading_before(log.end, log.op_topic_id, log.end)
            start.log = whole if log.begin > 0 else log
            return log.begin > 0
        del self._starts[number]
        half_end = max(start.half_end, log.taken.halves_from)
        # Behind the end where brokers have lost the last ops: others get their offsets.
        position = min(max(start.position, log.position_of_marks), start.op_end)
        self.partitions[number] = RelayPartition(
            number,
            log.taken,
            max(position, log.taken.ops_from),
            half_end,
            HalfMemory(0),
            self._is_ordered,
            JobPosition(log.ops_end, half_end),
        )
        share = self.settings.relay_memory_bytes_max // len(self.partitions)
        for partition in self.partitions.values():
            partition.memory.bytes_max = share
        return True

    def _read_on(self) -> None:
        """Read what is served, and the decided topic of what starts."""
        names = self._names
        places = [
            TopicPartition(names.decided, number, start.log.position)
            for number, start in self._starts.items()
        ]
        for number, one in self.partitions.items():
            one.is_paused = False
            places.append(TopicPartition(names.op, number, one.next_op))
            places.append(TopicPartition(names.half, number, one.half_position))
        self._inputs.read(places)

    # Deciding

    def _learn_half_ends(self, now_s: float) -> None:
        """Ask where half partitions end, for ops that name a half which was not read (rule 5)."""
        self._half_ends.ask(
            number
            for number, partition in self.partitions.items()
            if partition.needs_end() and now_s - partition.ops[0].read_s >= ASK_AFTER_S
        )
        asked_s, found = self._half_ends.answer() or (0.0, {})
        for number, end in found.items():
            if number in self.partitions:
                self.partitions[number].learn_half_end(end, asked_s)

    def _learn_job(self) -> None:
        """Ask how far the job has come, for partitions that wait for it (rule 10)."""
        self._job.ask(number for number, one in self.partitions.items() if one.awaits_job)
        _, found = self._job.answer() or (0.0, {})
        for number, job in found.items():
            if number in self.partitions:
                self.partitions[number].job_has_written(job)

    def _marks_are_due(self, now_s: float) -> bool:
        """Ask where op partitions end when a mark is due; it is written when the answer is there.

        The mark then has the time until which all ops were read.
        """
        if now_s >= self._mark_s and self.partitions:
            self._mark_s = now_s + MARK_S
            self._op_ends.ask(self.partitions)
        answer = self._op_ends.answer()
        if answer is None:
            return False
        asked_s, found = answer
        for number, partition in self.partitions.items():
            if partition.position >= found.get(number, NOT_YET):
                partition.read_until_ms = max(partition.read_until_ms, self._time.at(asked_s))
        return bool(self.partitions)

    def _group(self, now_s: float) -> list[RelayedOp]:
        """Return what becomes of the ops that can be decided now."""
        if self._failed:
            return self._failed
        self._finals.refresh()
        made: list[RelayedOp] = []
        for partition in self.partitions.values():
            partition.memory.drop_older(now_s - HELD_S)
        # One op of each partition in turn: a flood on one fills no group that others need.
        turns, size = deque(self.partitions.values()), 0
        while turns and len(made) < GROUP_OPS_MAX and size < GROUP_BYTES_MAX:
            partition = turns.popleft()
            verdict = partition.take_op(now_s, self._final)
            if verdict is not None:
                made.append(verdict)
                size += verdict.bytes_written
                turns.append(partition)
        return made

    def _final(self, op: ReadOp, half: HeldHalf, half_offset: int) -> SinkRecord | str:
        """Return the sink's final; else why the job has to judge (rule 3)."""
        if op.parsed is None or not self.rules.accepts_op(op.record, op.parsed, op.partition):
            return "not accepted"
        return self._finals.make(half, op.partition, half_offset) or "real topic"

    # Writing

    def _write(self, group: list[RelayedOp], *, with_all_marks: bool) -> None:
        touched = {verdict.op.partition for verdict in group}
        marked = [
            partition
            for number, partition in sorted(self.partitions.items())
            if with_all_marks or number in touched
        ]
        topic = self._names.decided
        marks = {partition.number: _mark(topic, partition) for partition in marked}
        positions = [
            TopicPartition(self._names.op, partition.number, partition.position)
            for partition in marked
        ]
        records = [*chain.from_iterable(_records(topic, verdict) for verdict in group)]
        try:
            stored = self._turns.write(records, marks, positions, self._inputs.metadata)
        except GroupFailedError as failure:
            self._pass_again(group, failure)
        except PartitionsLostError:
            self._lose_all()
        else:
            self._failed = []
            self._committed(group, stored)

    def _committed(self, group: list[RelayedOp], stored: dict[int, StoredMark]) -> None:
        now_s = time.monotonic()
        for number, mark in stored.items():
            self.partitions[number].committed(mark.offset)
            self._time.learn(mark.time_ms, now_s)
        self.counts.groups += bool(group)
        self.counts.decided.update(verdict.why or verdict.kind.value for verdict in group)

    def _pass_again(self, group: list[RelayedOp], failure: GroupFailedError) -> None:
        """Pass the whole group in the next transaction (rule 11)."""
        self.counts.failed += 1
        for topic in failure.topics:
            self._finals.leave_to_job(topic)
        self._failed = [
            self.partitions[verdict.op.partition].pass_again(verdict) for verdict in group
        ]
        if not failure.topics - {self._names.decided}:
            self._take(self._inputs.poll(FAILED_PAUSE_S))

    def _lose_all(self) -> None:
        """Forget all partitions: another relay has them, and a rebalance follows."""
        self.partitions.clear()
        self._failed = []


@dataclass(slots=True)
class _Start:
    """A start of a partition.

    Args:
        position: the group's in the op partition.
        half_end: the end of the half partition, asked for after that.
        op_end: the end of the op partition, asked for then too.
        log: what was read of the decided partition.
    """

    position: int
    half_end: int
    op_end: int
    log: DecidedPartition


def _mark(topic: str, partition: RelayPartition) -> SinkRecord:
    note = partition.mark
    return SinkRecord(topic, partition.number, None, note_value(note), note_headers(note), NOW)


def _records(topic: str, verdict: RelayedOp) -> Iterator[SinkRecord]:
    """Yield the final, if there is one, and the op's record on the decided topic (rule 2)."""
    op, record = verdict.op, verdict.op.record
    if verdict.final is not None and op.parsed is not None:
        yield verdict.final
        headers = delivered_headers(*op.parsed.identity, op.parsed.from_check, op.offset)
    else:
        kept = [] if verdict.kind is OpKind.UNREADABLE else record.headers() or []
        headers = passed_headers(kept, verdict.kind, op.offset)
    yield SinkRecord(topic, op.partition, record.key(), record.value(), headers, NOW)
