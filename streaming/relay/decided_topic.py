"""Reads and writes on the decided topic who takes the ops; passes on ops that relays left.

All starts over these topics use one transactional id: a new start aborts the open transaction of an
earlier one. So only one start at a time decides who takes the ops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.checkpoints.own_files.relay_terms import Spans
from checkback.protocol.configuration import Settings
from checkback.protocol.decided import (
    Closed,
    OpKind,
    PartitionNote,
    RelayMark,
    Taken,
    is_about,
    note_headers,
    note_value,
    partition_note,
    passed_headers,
)
from checkback.protocol.errors import BrokerError, CheckpointError, FencedError
from checkback.protocol.properties import Headers, named_offset
from checkback.protocol.topics import around_half_bytes, relay_group
from checkback.sinks.kafka.cluster.described_topics import describe_topics
from checkback.sinks.kafka.cluster.topic_directory import batch_size
from checkback.sinks.kafka.read.list_offsets import (
    EARLIEST,
    LATEST,
    listed_offsets,
    wait_for_transactions,
)
from checkback.sinks.kafka.read.record_reader import LOOKUP_CONSUMER, REPORTS_END, next_record
from checkback.sinks.kafka.transaction.errors import FENCED_CODES, cause_of
from checkback.sinks.kafka.transaction.limited_call import HangingCallError, call_within
from checkback.sinks.kafka.transaction.producer import HANGING_AFTER_S
from checkback.sinks.kafka.transaction.queueing import queue
from checkback.sinks.records.sink_record import NOW, SinkRecord
from checkback.sinks.records.source_record import (
    SourceRecord,
    is_unreadable,
    readable_headers,
    readable_op,
)

TIMEOUT_S: Final = 30.0
OPEN_TRANSACTION_S: Final = 60.0
"""Brokers end a dead relay's transaction well within this time."""
FIRST_LOOK_OFFSETS: Final = 1_000
"""How far before its end a partition is read first: a relay writes a mark every second."""
PASSED_AT_ONCE: Final = 2_000
"""Ops that one Kafka transaction passes on."""
SESSION_MS: Final = 10_000
"""How long a start that died still counts as a member of the relays' group."""
Notes = Mapping[int, list[tuple[PartitionNote, int]]]
"""By partition, its notes and their offsets, in order."""


@dataclass(slots=True)
class DecidedTopic:
    """The decided topic, for one start of the job.

    Args:
        settings: the job's.
        connection: librdkafka's settings for the connection.
        partitions: the number of half partitions.
    """

    settings: Settings
    connection: Mapping[str, Any]
    partitions: int
    positions: dict[int, int] = field(default_factory=dict, init=False)
    """The relays' positions in the op partitions, by their marks."""
    _op_topic_id: str = field(init=False)
    _producer: Producer = field(init=False)
    _admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self._admin = AdminClient(dict(self.connection))
        op = self.settings.topics.op
        self._op_topic_id = describe_topics(self._admin, [op])[op].topic_id
        own = {
            # A rebuilt checkpoint has the same id; other topics have another one.
            "transactional.id": f"{self.settings.application_id}-{self.settings.topics.decided}",
            "transaction.timeout.ms": int(OPEN_TRANSACTION_S * 1_000),
            "batch.size": batch_size(around_half_bytes(self.settings.max_message_bytes)),
        }
        self._producer = Producer({**self.connection, **own})
        with _refusals("fence earlier starts"):
            self._producer.init_transactions(TIMEOUT_S)

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.settings.topics.decided

    def half_ends(self) -> dict[int, int]:
        """Return where the half partitions end, records of open transactions included."""
        return self._ends(self.settings.topics.half)

    def begins(self) -> dict[int, int]:
        """Return the first offset of each decided partition."""
        return self._ends(self.settings.topics.decided, EARLIEST)

    def notes(self, known: Spans, read: Mapping[int, int]) -> Notes:
        """Return the last note of each partition, or all notes where no span is known.

        Args:
            known: the spans that the checkpoint knows.
            read: how far the checkpoint has read the topic.

        Raises:
            CheckpointError: the topic ends before what was read, or a transaction does not end.
            BrokerError: the brokers do not answer.
        """
        topic = self.settings.topics.decided
        begins, ends = self.begins(), self._ends(topic)
        lost = sorted(at for at, offset in read.items() if offset > ends.get(at, 0))
        if lost:
            raise CheckpointError(
                f"Partitions {lost} of {topic} end before what this checkpoint has read of them: "
                "the topic was deleted or lost records, and with them what relays delivered.",
                remedy="Run `checkback checkpoint rebuild`; see `checkback docs recovering`.",
                topic=topic,
                partitions=lost,
            )
        places = {(topic, at): end for at, end in ends.items()}
        remedy = "Stop every `checkback relay`"
        wait_for_transactions(self._admin, places, OPEN_TRANSACTION_S, remedy)
        return {
            at: self._notes_of(at, begins[at], end, is_known=bool(known.get(at)))
            for at, end in ends.items()
        }

    def take(self, spans: Mapping[int, Taken]) -> None:
        """Write that relays take the ops of partitions."""

        def say() -> None:
            for at, taken in spans.items():
                self._say(at, taken)

        self._in_transaction(say)

    def require_no_relay(self) -> None:
        """Refuse to go on while a relay is alive.

        Raises:
            CheckpointError: the group of relays has members.
            BrokerError: the brokers do not answer.
        """
        group = relay_group(self.settings.application_id)
        asked: Any = self._admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)
        try:
            members = asked[group].result(2 * TIMEOUT_S).members
        except KafkaException as error:
            if cause_of(error).name() != "GROUP_ID_NOT_FOUND":
                raise _not_possible("describe the relays' group", error) from error
            return
        if members:
            raise self._relay_alive_error(len(members))

    def close_relays(
        self, read: Mapping[int, int], taken_from: Mapping[int, int]
    ) -> dict[int, int]:
        """Pass on the ops that relays left; write that the job takes the ops again (rule 9).

        Args:
            read: for each partition to close, the offset up to which the job has read the ops.
            taken_from: for the same partitions, the offset where the relays began.

        Returns:
            The first op that is the job's, by partition.

        Raises:
            CheckpointError: a relay is alive.
            BrokerError: the brokers do not answer.
        """
        with self._as_only_member() as (consumer, member):
            places = [TopicPartition(self.settings.topics.op, at) for at in read]
            # Waits for a transaction that is about to move a position.
            with _refusals("read the relays' positions"):
                found = consumer.committed(places, timeout=OPEN_TRANSACTION_S)
            closed = {}
            for place in found:
                at = place.partition
                position = max(place.offset, taken_from[at], self.positions.get(at, 0))
                self._pass_on(consumer, member, at, position, read[at])
                closed[at] = max(position, read[at])

            def say() -> None:
                for at, ops_from in closed.items():
                    self._say(at, Closed(ops_from))
                self._move(member, closed)

            self._in_transaction(say)
        return closed

    def _notes_of(
        self, at: int, begin: int, end: int, *, is_known: bool
    ) -> list[tuple[PartitionNote, int]]:
        size = FIRST_LOOK_OFFSETS if is_known else end
        while True:
            first = max(begin, end - size)
            found: list[tuple[PartitionNote, int]] = []
            for record in self._records(self.settings.topics.decided, at, first, end):
                note = partition_note(readable_headers(record), record.value())
                if note is None or not is_about(note, self._op_topic_id):
                    continue
                if isinstance(note, RelayMark):
                    self.positions[at] = note.position
                found.append((note, record.offset() or 0))
            if not is_known or first == begin:
                return found
            if found:
                return found[-1:]
            size *= 10

    def _pass_on(self, consumer: Consumer, member: Any, at: int, position: int, until: int) -> None:
        records = self._records(self.settings.topics.op, at, position, until)
        while ops := list(islice(records, PASSED_AT_ONCE)):
            end = self.half_ends()[at]  # asked after the ops were read: their halves are there

            def send(ops: Sequence[Message] = ops, end: int = end) -> None:
                for op in ops:
                    self._pass_one(at, op, end)
                self._move(member, {at: (ops[-1].offset() or 0) + 1})

            self._in_transaction(send)
            consumer.poll(0)

    def _pass_one(self, at: int, message: Message, half_end: int) -> None:
        op, _ = readable_op(message, self.settings.max_message_bytes)
        kind = kind_of(op, half_end)
        headers = [] if kind is OpKind.UNREADABLE else [*(op.headers() or [])]
        self._send(at, op.key(), op.value(), passed_headers(headers, kind, op.offset() or 0))

    def _say(self, at: int, note: PartitionNote) -> None:
        own = replace(note, op_topic_id=self._op_topic_id)
        self._send(at, None, note_value(own), note_headers(own))

    def _send(self, at: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        record = SinkRecord(self.settings.topics.decided, at, key, value, headers, NOW)
        queue(self._producer, record)

    def _move(self, member: Any, positions: Mapping[int, int]) -> None:
        topic = self.settings.topics.op
        places = [TopicPartition(topic, at, offset) for at, offset in positions.items()]
        call_within(
            lambda: self._producer.send_offsets_to_transaction(places, member, TIMEOUT_S),
            TIMEOUT_S + HANGING_AFTER_S,
        )

    def _in_transaction(self, send: Callable[[], object]) -> None:
        with _refusals("write who takes the ops"):
            self._producer.begin_transaction()
            try:
                send()
                self._producer.commit_transaction(OPEN_TRANSACTION_S)
            except KafkaException:
                with suppress(KafkaException):  # the first error says what is wrong
                    self._producer.abort_transaction(TIMEOUT_S)
                raise

    @contextmanager
    def _as_only_member(self) -> Iterator[tuple[Consumer, Any]]:
        """Join the relays' group: a relay that wakes up then belongs to an old generation."""
        self.require_no_relay()
        topic, assigned = self.settings.topics.op, list[TopicPartition]()

        def on_assign(consumer: Consumer, places: list[TopicPartition]) -> None:
            consumer.assign(places)
            consumer.pause(places)
            assigned[:] = places

        own = {
            "group.id": relay_group(self.settings.application_id), "enable.auto.commit": False,
            "isolation.level": "read_committed", "session.timeout.ms": SESSION_MS,
            "partition.assignment.strategy": "range",
        }  # fmt: skip
        consumer = Consumer({**self.connection, **own})
        try:
            consumer.subscribe([topic], on_assign=on_assign)
            until_s = time.monotonic() + TIMEOUT_S
            while not assigned and time.monotonic() < until_s:
                consumer.poll(0.1)
            if len(assigned) < self.partitions:
                raise self._relay_alive_error(1)
            yield consumer, consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def _relay_alive_error(self, members: int) -> CheckpointError:
        group = relay_group(self.settings.application_id)
        return CheckpointError(
            f"relay is not set, and consumer group {group} has {members} live members: relays "
            "still take the ops.",
            remedy="Stop every `checkback relay`, then start the job again; a relay that was killed"
            " counts as alive for some ten seconds, one that hangs for up to a minute.",
            group=group,
            members=members,
        )

    def _ends(self, topic: str, which: OffsetSpec = LATEST) -> dict[int, int]:
        found = listed_offsets(self._admin, [(topic, at) for at in range(self.partitions)], which)
        return {at: offset for (_, at), offset in found.items()}

    def _records(self, topic: str, at: int, first: int, end: int) -> Generator[Message]:
        """Yield the committed records of a partition between two offsets."""
        if first >= end:
            return
        consumer = Consumer({**LOOKUP_CONSUMER, **REPORTS_END, **self.connection})
        with closing(consumer):
            consumer.assign([TopicPartition(topic, at, first)])
            while (record := next_record(consumer, topic, at, TIMEOUT_S)) is not None:
                offset = record.offset() or 0
                if offset < end:
                    yield record
                if offset + 1 >= end:
                    return


def kind_of(op: SourceRecord, half_end: int) -> OpKind:
    """Return what becomes of an op that relays left (rule 5).

    Args:
        op: the op.
        half_end: the end of its half partition, asked for after the op was read.
    """
    if is_unreadable(op):
        return OpKind.UNREADABLE
    named = named_offset(op.value())
    return OpKind.EARLY if named is not None and named >= half_end else OpKind.PASSED


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise _not_possible(what, error) from error
    except HangingCallError as error:
        raise BrokerError(
            f"Kafka does not answer a start that wants to {what}.",
            remedy="Check the brokers, and start again.",
        ) from error


def _not_possible(what: str, error: KafkaException) -> BrokerError | FencedError:
    cause = cause_of(error)
    if cause.code() in FENCED_CODES:
        return FencedError("Another start of this job took over.")
    return BrokerError(
        f"Kafka refused to {what}: {cause.str()}.",
        remedy="Check the brokers, that no relay runs, and the job's rights with `checkback "
        "doctor`.",
    )
