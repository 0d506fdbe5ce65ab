"""The relay: reads ops and halves, ends clean, young transactions, passes the rest (rules 1 to 11).

docs/decisions/relay.md has the rules, and why they hold.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from confluent_kafka import IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.protocol.configuration import ORDER_BY_KEY, Settings
from checkback.protocol.decided import (
    OpKind,
    delivered_headers,
    note_headers,
    note_value,
    passed_headers,
)
from checkback.protocol.errors import PrerequisiteError
from checkback.protocol.topics import HEADER_ROOM_BYTES, TopicNames, relay_group
from checkback.relay.decided_log import DecidedLog
from checkback.relay.finals import Finals
from checkback.relay.inputs import HalfReader, OpReader, records_among
from checkback.relay.memory import HELD_S, HalfMemory, HeldHalf
from checkback.relay.partition import JobPosition, ReadOp, RelayedOp, RelayPartition
from checkback.relay.reading import RecordRules
from checkback.relay.turns import (
    PRODUCERS,
    GroupFailedError,
    PartitionsLostError,
    StoredMark,
    Turns,
)
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.read.list_offsets import listed_offsets
from checkback.sinks.records.sink_record import NOW, SinkRecord
from checkback.sinks.records.source_record import (
    UnreadableHeaders,
    content_bytes,
    is_unreadable,
    readable,
    readable_op,
)

GROUP_OPS_MAX: Final = 1_000
GROUP_BYTES_MAX: Final = 16_000_000
"""Bytes of one transaction; a larger half makes a group of its own."""
MARK_S: Final = 1.0
IDLE_S: Final = 0.1
AWAITED_S: Final = 0.002
"""How long one poll waits for a half that an op needs."""
ASK_S: Final = 5.0
ASK_AGAIN_S: Final = 20.0
"""How long requests are repeated while brokers are down or elect leaders."""
CLOCK_SAMPLES: Final = 16
FAILED_PAUSE_S: Final = 0.2
OPS_WAITING_MAX: Final = 10_000
"""With more waiting ops, reading pauses until fewer than half of this number wait."""


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
    _ops: OpReader = field(init=False)
    _halves: HalfReader = field(init=False)
    _log: DecidedLog = field(init=False)
    _turns: Turns = field(init=False)
    _finals: Finals = field(init=False)
    _time: BrokerTime = field(default_factory=BrokerTime)
    _rebalances: int = 0
    _starting: dict[int, _Start] = field(default_factory=dict)
    _failed: list[RelayedOp] = field(default_factory=list)
    _mark_s: float = 0.0

    def __post_init__(self) -> None:
        settings, connection = self.settings, self.settings.connection()
        self._names = names = settings.topics
        bytes_max = settings.max_message_bytes + 3 * HEADER_ROOM_BYTES
        ids = [
            f"{settings.application_id}-relay-{self.instance}-{turn}" for turn in range(PRODUCERS)
        ]
        self._admin = AdminClient(connection)
        self._turns = Turns(connection, ids, names.decided, bytes_max)
        self._turns.open()
        directory = TopicDirectory(AdminClient(connection), shortage_wait_s=0.0)
        self._finals = Finals(names, directory, bytes_max)
        self._halves = HalfReader(connection, names.half)
        self._log = DecidedLog(connection, names.decided)
        self._ops = OpReader(connection, relay_group(settings.application_id), names.op)

    @property
    def _is_ordered(self) -> bool:
        return self.settings.order_of_pages == ORDER_BY_KEY

    @property
    def is_ready(self) -> bool:
        """Whether the relay serves its partitions; some may still wait for a start of the job."""
        if self._ops.metadata is None or (self._ops.assigned and not self.partitions):
            return False
        found = self._log.partitions
        return all(number in found and found[number].is_read for number in self._starting)

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
        self._read()
        if self._rebalances != self._ops.rebalances:
            self._begin_again()
        if self._starting:
            self._start()
        self._ask_for_ends()
        now_s = time.monotonic()
        group = self._group(now_s)
        is_due = now_s >= self._mark_s
        if group or (is_due and self.partitions):
            self._write(group, with_all_marks=is_due)

    def close(self) -> None:
        """Leave the group, and close all connections."""
        self._turns.close()
        self._ops.close()
        self._halves.close()
        self._log.close()

    # Reading

    def _read(self) -> None:
        waiting = sum(len(partition.ops) for partition in self.partitions.values())
        if waiting > OPS_WAITING_MAX or waiting < OPS_WAITING_MAX // 2:
            self._ops.rest(rests=waiting > OPS_WAITING_MAX)
        self._take_ops(self._ops.poll(0.0 if waiting or self._failed else IDLE_S))
        awaited = any(
            partition.ops and partition.ops[0].parsed is not None
            and (partition.ops[0].parsed.named or 0) >= partition.half_position
            for partition in self.partitions.values()
        )  # fmt: skip
        self._take_halves(self._halves.poll(AWAITED_S if awaited else 0.0))
        self._follow_job()

    def _take_ops(self, messages: list[Message]) -> None:
        for message in records_among(messages, self._ops_end, self._unreadable_op):
            number = message.partition() or 0
            record = readable_op(message, self.settings.max_message_bytes)
            found = self.partitions.get(number)
            if found is not None and (message.offset() or 0) >= found.next_op:
                parsed = None if is_unreadable(record) else self.rules.op(record, number)
                found.ops.append(
                    ReadOp(number, message.offset() or 0, record, parsed, time.monotonic())
                )

    def _ops_end(self, number: int, offset: int) -> None:
        found = self.partitions.get(number)
        if found is not None:
            found.ops_read_to = max(found.ops_read_to, offset)

    def _unreadable_op(self, message: Message) -> None:
        found = self.partitions.get(message.partition() or 0)
        if found is not None and (message.offset() or 0) >= found.next_op:
            record = UnreadableHeaders(message, "can't be unpacked")
            op = ReadOp(found.number, message.offset() or 0, record, None, time.monotonic())
            found.ops.append(op)
        self._ops.skip(message)

    def _take_halves(self, messages: list[Message]) -> None:
        for message in records_among(messages, self._halves_end, self._halves.skip):
            found = self.partitions.get(message.partition() or 0)
            if found is None:
                continue
            record = readable(message)
            identity = None if self.settings.reject_transactions else self.rules.half(record)
            half = None if identity is None else HeldHalf(record, identity, time.monotonic())
            found.read_half(message.offset() or 0, half)

    def _halves_end(self, number: int, offset: int) -> None:
        found = self.partitions.get(number)
        if found is not None:
            found.read_halves_to(offset)

    def _follow_job(self) -> None:
        self._log.poll()
        for number, found in self.partitions.items() if self._is_ordered else ():
            job = self._log.partitions[number].job
            if job != found.job:
                found.job_has_written(job)

    # A start of partitions (rules 6 and 9)

    def _begin_again(self) -> None:
        self._rebalances = self._ops.rebalances
        self.partitions.clear()
        self._failed.clear()
        self._starting = {number: _Start() for number in self._ops.assigned}
        self._log.begin({})

    def _start(self) -> None:
        """Take the next step of the start: the position, then ends, then who takes the ops."""
        fresh = [number for number, start in self._starting.items() if start.position is None]
        if fresh:
            positions = self._ops.positions()
            if positions is None or self._rebalances != self._ops.rebalances:
                return
            halves = self._ends(self._names.half, fresh)
            decided = self._ends(self._names.decided, fresh)
            for number in fresh:
                self._starting[number] = _Start(positions.get(number, 0), halves[number])
            self._log.begin(decided)
            return
        ready = False
        for number, start in [*self._starting.items()]:
            log = self._log.partitions[number]
            if log.is_closed and log.is_read:
                raise PrerequisiteError(
                    f"The job takes the ops of partition {number} itself: its last start was "
                    "without relay.",
                    remedy="Start the job with relay = true, then the relay.",
                    partition=number,
                )
            if log.taken is None or not log.is_read:
                continue
            del self._starting[number]
            half_end = max(start.half_end, log.taken.halves_from)
            self.partitions[number] = RelayPartition(
                number,
                log.taken,
                max(start.position or 0, log.taken.ops_from, log.position_of_marks),
                half_end,
                HalfMemory(0),
                self._is_ordered,
                JobPosition(log.position, half_end),
                log.job,
            )
            ready = True
        if not self._starting and not self._is_ordered:
            self._log.begin({})
        if ready:
            share = self.settings.relay_memory_bytes_max // len(self.partitions)
            for partition in self.partitions.values():
                partition.memory.bytes_max = share
            self._ops.read({at: partition.next_op for at, partition in self.partitions.items()})
            self._halves.read(
                {at: partition.half_position for at, partition in self.partitions.items()}
            )

    def _ends(self, topic: str, numbers: Sequence[int]) -> dict[int, int]:
        """Return the high watermarks of partitions: records of open transactions count."""
        latest, every = OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED
        places = [(topic, number) for number in numbers]
        found = listed_offsets(self._admin, places, latest, every, ASK_S, retry_s=ASK_AGAIN_S)
        return {number: end for (_, number), end in found.items()}

    # Deciding

    def _ask_for_ends(self) -> None:
        """Ask where half partitions end, for ops that name a half which was not read (rule 5)."""
        unknown = [number for number, partition in self.partitions.items() if partition.needs_end()]
        if unknown:
            asked_s = time.monotonic()
            for number, end in self._ends(self._names.half, unknown).items():
                self.partitions[number].learn_half_end(end, asked_s)

    def _group(self, now_s: float) -> list[RelayedOp]:
        """Return what becomes of the ops that can be decided now."""
        if self._failed:
            return self._failed
        self._finals.refresh()
        made: list[RelayedOp] = []
        share = len(self.partitions) or 1
        ops_max, bytes_max = GROUP_OPS_MAX // share, GROUP_BYTES_MAX // share
        for partition in self.partitions.values():
            partition.memory.drop_older(now_s - HELD_S)
            made += self._of_partition(partition, now_s, ops_max, bytes_max)
        return made

    def _of_partition(
        self, partition: RelayPartition, now_s: float, ops_max: int, bytes_max: int
    ) -> list[RelayedOp]:
        made: list[RelayedOp] = []
        size = 0
        while len(made) < max(1, ops_max) and size < bytes_max:
            verdict = partition.take_op(now_s, self._finals.make)
            if verdict is None:
                break
            made.append(verdict)
            size += content_bytes(verdict.op.record)
            size += len(verdict.final.value or b"") if verdict.final is not None else 0
        return made

    # Writing

    def _write(self, group: list[RelayedOp], *, with_all_marks: bool) -> None:
        touched = {verdict.op.partition for verdict in group}
        if with_all_marks:
            self._learn_what_was_read()
            touched.update(self.partitions)
        marked = [self.partitions[number] for number in sorted(touched)]
        marks = {partition.number: _mark(self._names, partition) for partition in marked}
        positions = [
            TopicPartition(self._names.op, partition.number, partition.position)
            for partition in marked
        ]
        records = [*chain.from_iterable(_records(self._names, verdict) for verdict in group)]
        try:
            stored = self._turns.write(records, marks, positions, self._ops.metadata)
        except GroupFailedError as failure:
            self._pass_again(group, failure)
            return
        except PartitionsLostError:
            self._lose_all()
            return
        self._failed = []
        self._committed(group, stored)
        if with_all_marks:
            self._mark_s = time.monotonic() + MARK_S

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
            self._finals.doubt(topic)
        self._failed = [
            self.partitions[verdict.op.partition].pass_again(verdict) for verdict in group
        ]
        self._take_ops(self._ops.poll(FAILED_PAUSE_S if not failure.topics else 0.0))

    def _lose_all(self) -> None:
        """Forget all partitions: another relay has them, and a rebalance follows."""
        self.partitions.clear()
        self._failed = []

    def _learn_what_was_read(self) -> None:
        """Note the time until which all ops were read, where a partition was read to its end."""
        asked_s = time.monotonic()
        ends = self._ends(self._names.op, [*self.partitions])
        for number, partition in self.partitions.items():
            if partition.position >= ends[number]:
                partition.read_until_ms = max(partition.read_until_ms, self._time.at(asked_s))


@dataclass(frozen=True, slots=True)
class _Start:
    """How far the start of a partition has come."""

    position: int | None = None
    half_end: int = 0


def _mark(names: TopicNames, partition: RelayPartition) -> SinkRecord:
    note = partition.mark
    return SinkRecord(
        names.decided, partition.number, None, note_value(note), note_headers(note), NOW
    )


def _records(names: TopicNames, verdict: RelayedOp) -> Iterator[SinkRecord]:
    """Yield the final, if there is one, and the op's record on the decided topic (rule 2)."""
    op, record = verdict.op, verdict.op.record
    if verdict.final is not None and op.parsed is not None:
        yield verdict.final
        headers = delivered_headers(*op.parsed.identity, op.parsed.from_check, op.offset)
    else:
        kept = [] if verdict.kind is OpKind.UNREADABLE else record.headers() or []
        headers = passed_headers(kept, verdict.kind, op.offset)
    yield SinkRecord(names.decided, op.partition, record.key(), record.value(), headers, NOW)
