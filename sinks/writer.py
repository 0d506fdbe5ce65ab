"""Writes what a state partition decided in one batch: once, whatever happens in between.

Steps, in this order: open (fence the predecessor, read the marker) - skip if the marker is past the
batch - begin - look up and send - move the marker - commit. Between any two of them the process
may die; docs/guarantees.md says what then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, Message

from checkback.protocol.errors import BrokerError, CheckpointError, FencedError
from checkback.protocol.records import DISCARDED_CHECK_LIMIT, DISCARDED_EXPIRED
from checkback.protocol.refusals import RefusedReason
from checkback.sinks import routing
from checkback.sinks.lookup import RecordReader
from checkback.sinks.plan import half_lookups, op_lookups
from checkback.sinks.real_topics import KnownTopic, TopicDirectory
from checkback.sinks.report import BatchReport, report_of
from checkback.sinks.settings import SinkSettings
from checkback.sinks.transaction import (
    MarkedProducer,
    Output,
    ProducerLostError,
    RejectedOutputError,
    Rejection,
)
from checkback.state import Action, Outcome, pack_settled

TRIES: Final = 20
LOST_TRIES: Final = 3
LIBRDKAFKA_BATCH_BYTES: Final = 1_000_000
"""librdkafka's batch.size: a topic that takes less needs its batches cut by flushing."""

REJECTION_REASONS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: RefusedReason.REAL_TOPIC_DENIED,
    KafkaError.INVALID_RECORD: RefusedReason.FINAL_REJECTED,
    KafkaError.POLICY_VIOLATION: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_TIMESTAMP: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_MSG: RefusedReason.FINAL_REJECTED,
    KafkaError.TOPIC_EXCEPTION: RefusedReason.REAL_TOPIC_MISSING,
    KafkaError.UNKNOWN_TOPIC_OR_PART: RefusedReason.REAL_TOPIC_MISSING,
    KafkaError._UNKNOWN_TOPIC: RefusedReason.REAL_TOPIC_MISSING,
    KafkaError._UNKNOWN_PARTITION: RefusedReason.REAL_TOPIC_MISSING,
}
TOO_LARGE_CODES: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
)


@dataclass(slots=True)
class Lessons:
    """What the tries of one batch have taught: which outputs Kafka will not take.

    Args:
        closed_topics: topics that take nothing, and why.
        one_by_one: topics whose records are sent one to a batch, to find the one too large.
        too_large: (half partition, half offset) of finals that were.
    """

    closed_topics: dict[str, RefusedReason] = field(default_factory=dict)
    one_by_one: set[str] = field(default_factory=set)
    too_large: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class BatchWriter:
    """The sink of one state partition in one worker process; kept from batch to batch.

    Args:
        settings: the sink's.
        state_partition: number of the state partition.
        halves: reads the half topic.
        ops: reads the op topic.
        directory: what is known of topics.
    """

    settings: SinkSettings
    state_partition: int
    halves: RecordReader
    ops: RecordReader
    directory: TopicDirectory
    _producer: MarkedProducer | None = None
    _lessons: Lessons = field(default_factory=Lessons)
    _unflushed_bytes: dict[str, int] = field(default_factory=dict)
    _last_final: dict[str, tuple[int, int]] = field(default_factory=dict)

    def write(self, outcomes: Sequence[Outcome], batch_id: int, first_batch: int) -> BatchReport:
        """Write the batch unless its marker says that it is written.

        Args:
            outcomes: of all pages of this state partition, the whole input of the task.
            batch_id: Spark's batch.
            first_batch: the first batch of this checkpoint that markers are known from; any later
                one must find a marker.

        Returns:
            What was decided and done.

        Raises:
            CheckpointError: the marker is gone.
            FencedError: another job writes for the same state partition.
            BrokerError: Kafka did not take what it must take.
        """
        report = report_of(self.state_partition, outcomes)
        self._lessons = Lessons()
        self.directory.expect_change()
        lost = 0
        for _ in range(TRIES):
            try:
                return self._try(outcomes, batch_id, first_batch, report)
            except RejectedOutputError as rejected:
                # Aborting and going on left sequence numbers behind that the broker then refused.
                self.close()
                self._learn(rejected.rejections)
            except ProducerLostError as error:
                self.close()
                lost += 1
                if lost == LOST_TRIES:
                    raise FencedError(error.message, remedy=error.remedy) from error
        raise BrokerError(
            f"Kafka rejected batch {batch_id} of state partition {self.state_partition} "
            f"{TRIES} times.",
            remedy="Look into the broker's log for the reason.",
        )

    def close(self) -> None:
        """Give the producer up; the next batch makes another one."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _try(
        self, outcomes: Sequence[Outcome], batch_id: int, first_batch: int, report: BatchReport
    ) -> BatchReport:
        producer = self._open(batch_id, first_batch)
        marker, now_ms = producer.marker, int(time.time() * 1_000)
        if marker is not None and marker.next_batch > batch_id:
            report.skipped = True
            return report
        has_output = any(len(outcome.action) for outcome in outcomes)
        if not has_output and marker is not None and not marker.is_due_for_renewal(now_ms):
            return report
        tried = BatchReport(self.state_partition, report.counts.copy(), pages=report.pages)
        producer.begin()
        self._unflushed_bytes.clear()
        for output in self._outputs(outcomes, batch_id, tried):
            producer.send(output)
        producer.commit(batch_id, now_ms)
        return tried

    def _open(self, batch_id: int, first_batch: int) -> MarkedProducer:
        if self._producer is None:
            self._producer = MarkedProducer(self.settings, self.state_partition)
        if self._producer.marker is None and batch_id > first_batch:
            raise CheckpointError(
                f"The marker of state partition {self.state_partition} is gone before batch "
                f"{batch_id}: whether that batch was written can't be known.",
                remedy="Run `checkback checkpoint rebuild`; see docs/operating/recovering.md.",
                state_partition=self.state_partition,
                batch_id=batch_id,
            )
        return self._producer

    def _outputs(
        self, outcomes: Sequence[Outcome], batch_id: int, report: BatchReport
    ) -> Iterator[Output]:
        for lookup in half_lookups(outcomes):
            found = self.halves.read(lookup.partition, lookup.offset)
            for (offset, half), (_, action, detail) in zip(found, lookup, strict=True):
                yield self._half_output(half, lookup.partition, offset, action, detail, report)
        names = self.settings.topics
        for lookup in op_lookups(outcomes):
            found = self.ops.read(lookup.partition, lookup.offset)
            for (offset, op), (_, _, detail) in zip(found, lookup, strict=True):
                reason = RefusedReason(detail)
                yield routing.refused(op, names.op, lookup.partition, offset, reason, names)
        for outcome in outcomes:
            if len(outcome.action):
                yield self._settled_mark(outcome, batch_id)

    def _half_output(
        self,
        half: Message | None,
        partition: int,
        offset: int,
        action: int,
        detail: int,
        report: BatchReport,
    ) -> Output:
        names = self.settings.topics
        if half is None:
            report.counts["halves_lost"] += 1
            lost = RefusedReason.HALF_LOST
            wanted = Action(action).name.lower()
            return routing.refused(None, names.half, partition, offset, lost, names, wanted)
        match action:
            case Action.COMMIT:
                return self._final(half, partition, offset, report)
            case Action.CHECK:
                return self._check(half, partition, offset, detail, report)
            case Action.REFUSE_HALF:
                reason = RefusedReason(detail)
                return routing.refused(half, names.half, partition, offset, reason, names)
            case _:
                expired = action == Action.DISCARD_EXPIRED
                why = DISCARDED_EXPIRED if expired else DISCARDED_CHECK_LIMIT
                return routing.discarded(half, partition, offset, detail, why, names)

    def _final(self, half: Message, partition: int, offset: int, report: BatchReport) -> Output:
        names = self.settings.topics
        output = routing.final_or_refused(half, partition, offset, self.directory.find, names)
        reason = self._refusal_learnt(output.topic, partition, offset)
        if reason is not None:
            output = routing.refused(
                half, names.half, partition, offset, reason, names, output.topic
            )
        if output.topic == names.refused:
            report.counts["finals_refused"] += 1
        else:
            report.counts["finals"] += 1
            self._make_room(output)
            self._last_final[output.topic] = (partition, offset)
        return output

    def _refusal_learnt(self, topic: str, partition: int, offset: int) -> RefusedReason | None:
        if (partition, offset) in self._lessons.too_large:
            return RefusedReason.FINAL_TOO_LARGE
        return self._lessons.closed_topics.get(topic)

    def _check(
        self, half: Message, partition: int, offset: int, check_times: int, report: BatchReport
    ) -> Output:
        names = self.settings.topics
        output = routing.check_request(half, partition, offset, check_times, names)
        closed = output.topic in self._lessons.closed_topics
        if closed or self.directory.find(output.topic) is None:
            group = output.topic.removeprefix(names.check(""))
            report.undelivered_groups[group] += 1
            return routing.undelivered_check(partition, offset, check_times, names)
        return output

    def _make_room(self, output: Output) -> None:
        """Flush where one batch of several records would be more than the topic takes."""
        known: KnownTopic | None = self.directory.find(output.topic)
        one_by_one = output.topic in self._lessons.one_by_one
        if known is None or self._producer is None:
            return
        if known.record_batch_bytes_max >= LIBRDKAFKA_BATCH_BYTES and not one_by_one:
            return
        size = routing.record_bytes_max(output.key, output.value, output.headers)
        waiting = self._unflushed_bytes.get(output.topic, 0)
        if waiting and (one_by_one or waiting + size > known.record_batch_bytes_max):
            self._producer.flush()
            waiting = 0
        self._unflushed_bytes[output.topic] = waiting + size

    def _settled_mark(self, outcome: Outcome, batch_id: int) -> Output:
        key = b"%d:%d" % (outcome.partition, outcome.page)
        mark = pack_settled(outcome, batch_id)
        topic = self.settings.topics.settled
        return Output(topic, self.state_partition, key, mark, [], routing.NOW)

    def _reason_of(self, rejection: Rejection) -> RefusedReason | None:
        if rejection.code != KafkaError._MSG_TIMED_OUT:
            return REJECTION_REASONS.get(rejection.code)
        # A topic that vanished shows as records that found no leader in time.
        self.directory.forget(rejection.topic)
        gone = self.directory.find(rejection.topic) is None
        return RefusedReason.REAL_TOPIC_MISSING if gone else None

    def _learn(self, rejections: Sequence[Rejection]) -> None:
        """Draw the conclusion from what Kafka rejected, so that the next try gets past it.

        Raises:
            BrokerError: it rejected what only a change at the broker can make it take.
        """
        names = self.settings.topics
        ours = {names.refused, names.discarded, names.settled, names.op}
        # A batch is rejected whole, each of its records reporting it: one lesson per topic.
        for rejection in {one.topic: one for one in rejections}.values():
            reason = self._reason_of(rejection)
            too_large = rejection.code in TOO_LARGE_CODES
            if rejection.topic in ours or (reason is None and not too_large):
                raise BrokerError(
                    f"Kafka does not take records for {rejection.topic}: {rejection.text}.",
                    remedy="Check the topic's settings and the pipeline's rights with "
                    "`checkback doctor`.",
                    topic=rejection.topic,
                )
            if reason is not None:
                self.directory.forget(rejection.topic)
                self._lessons.closed_topics[rejection.topic] = reason
            elif rejection.topic in self._lessons.one_by_one:
                self._lessons.too_large.add(self._last_final[rejection.topic])
            else:
                self.directory.forget(rejection.topic)
                self._lessons.one_by_one.add(rejection.topic)
