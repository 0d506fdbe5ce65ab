"""Learns from the tries of one batch which outputs Kafka will not take, and why.

A rejected record costs its whole transaction, and the broker rejects the whole batch of records
that it is in. The sink finds the rejected record in this order: by what it knows of the topic and
looks up again after a rejection (sizes, keys, ages); by what the broker says of single records
(KIP-467); else by sending the records of the rejected batch one by one. If a topic rejects too many
tries, the sink closes it for the rest of the batch, so that no sender can hold up the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError
from checkback.protocol.record_size import record_bytes_max
from checkback.protocol.refusals import RecordOrigin, RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.topic_directory import TopicDirectory
from checkback.sinks.kafka.transaction.errors import Rejection
from checkback.sinks.records.router import Refusal
from checkback.sinks.records.sink_record import SinkRecord

MISSING_CODES: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""The topic, or the partition, is gone: or what was known of it is old."""
TOPIC_REASONS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: RefusedReason.REAL_TOPIC_DENIED,
    KafkaError.TOPIC_EXCEPTION: RefusedReason.REAL_TOPIC_MISSING,
    **dict.fromkeys(MISSING_CODES, RefusedReason.REAL_TOPIC_MISSING),
}
"""Why a topic takes nothing."""
SIZE_CODES: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
RECORD_REASONS: Final = {
    **dict.fromkeys(SIZE_CODES, RefusedReason.FINAL_TOO_LARGE),
    KafkaError.INVALID_RECORD: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_TIMESTAMP: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_MSG: RefusedReason.FINAL_REJECTED,
    KafkaError.POLICY_VIOLATION: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_MSG_SIZE: RefusedReason.FINAL_REJECTED,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: RefusedReason.FINAL_REJECTED,
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: RefusedReason.FINAL_REJECTED,
    KafkaError.UNKNOWN: RefusedReason.FINAL_REJECTED,
    KafkaError._INVALID_ARG: RefusedReason.RECORD_NOT_MADE,
}
"""Why a broker does not take one record. A broker reports the unknown error if its own code, or a
plugin's, failed over a record; it fails again at every start."""
BYSTANDER: Final = KafkaError._INVALID_DIFFERENT_RECORD  # type: ignore[attr-defined]  # a stub's gap
"""What a broker says of a record that it rejects only because of another one in the same batch."""
TIMEOUTS_MAX: Final = 2
TOPIC_TRIES_MAX: Final = 48
"""How many tries one topic may reject before it is closed."""
TRIES_MAX: Final = 96
"""How many tries all topics may reject together; after that a topic that rejects a record is closed
at once."""


@dataclass(slots=True)
class KnownRejections:
    """Rejections known from the tries of one batch; the next batch begins without them.

    Args:
        tracks_each_record: whether every record is measured and tracked.
        closed_topics: topics that take nothing, and why.
        rejected: the origins of records that were not taken, and why.
        without_content: the origins of refused records that were not taken either.
        alone: by topic, the origins of records that go in a record batch of their own: one of them
            was rejected, and the broker named none.
        timeouts: tries that ended because records were not taken in time.
    """

    tracks_each_record: bool = False
    closed_topics: dict[str, Refusal] = field(default_factory=dict)
    rejected: dict[RecordOrigin, Refusal] = field(default_factory=dict)
    without_content: set[RecordOrigin] = field(default_factory=set)
    alone: dict[str, set[RecordOrigin | None]] = field(default_factory=dict)
    timeouts: int = 0
    _tries: Counter[str] = field(default_factory=Counter)
    _missing_once: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        """Return whether outputs have to be compared with what is known."""
        return bool(self.closed_topics or self.rejected)

    def refusal(self, output: SinkRecord) -> Refusal | None:
        """Return why an output can't go to its topic, None if nothing is known against it."""
        found = None if output.origin is None else self.rejected.get(output.origin)
        return found or self.closed_topics.get(output.topic)

    def learn(
        self, rejections: Sequence[Rejection], names: TopicNames, directory: TopicDirectory
    ) -> None:
        """Learn from what Kafka rejected, so that the next try gets past it.

        Args:
            names: topics that have to take everything.
            directory: forgets what it knows, and learns limits.

        Raises:
            BrokerError: a broker rejected what it takes only after a change of its settings.
        """
        self.tracks_each_record = True
        directory.forget_all()
        causes = _causes_in(rejections)
        if not causes:
            self._count_timeout(rejections[0])
            return
        for topic in dict.fromkeys(cause.topic for cause in causes):
            of_topic = [other for other in rejections if other.topic == topic]
            self._learn_of(topic, of_topic, names, directory)

    def _learn_of(
        self,
        topic: str,
        rejections: list[Rejection],
        names: TopicNames,
        directory: TopicDirectory,
    ) -> None:
        causes = _causes_in(rejections)
        first = causes[0]
        # Of these nothing can be refused: no sender has a part in them, and no other topic takes
        # them.
        takes_all = topic in {names.settled, names.feedback}
        is_own_topic = takes_all or topic in {names.refused, names.discarded}
        self._tries[topic] += 1
        if first.code in TOPIC_REASONS:
            self._learn_of_topic(first, is_own_topic=is_own_topic)
        elif first.code not in RECORD_REASONS or takes_all:
            raise _untaken_error(first)
        elif topic == names.refused:
            self._learn_of_refused(causes, directory)
        else:
            for partition in dict.fromkeys(cause.partition for cause in causes):
                there = [other for other in rejections if other.partition == partition]
                self._learn_of_records(there, names, directory)
        is_spent = self._tries[topic] > TOPIC_TRIES_MAX
        if not is_own_topic and (is_spent or self._tries.total() > TRIES_MAX):
            detail = f"{topic} rejected too many records of this batch, lastly: {first.text}"
            self.closed_topics.setdefault(topic, Refusal(RefusedReason.FINAL_REJECTED, detail))
        elif is_spent:
            raise _untaken_error(first)

    def _learn_of_topic(self, rejection: Rejection, *, is_own_topic: bool) -> None:
        topic = rejection.topic
        if rejection.code in MISSING_CODES and topic not in self._missing_once:
            self._missing_once.add(topic)  # the next try sees whether it is gone, or was changed
            return
        if is_own_topic:
            raise _untaken_error(rejection)
        refusal = Refusal(TOPIC_REASONS[rejection.code], f"{topic}: {rejection.text}")
        self.closed_topics[topic] = refusal

    def _learn_of_records(
        self, rejections: list[Rejection], names: TopicNames, directory: TopicDirectory
    ) -> None:
        """Take what the brokers said of the records of one partition."""
        causes = [cause for cause in rejections if cause.code in RECORD_REASONS]
        if any(cause.record is None for cause in causes):
            return  # nothing was tracked: the next try does, and measures
        is_exact = len(causes) == 1 or len(causes) < len(rejections)
        if causes[0].code in SIZE_CODES:
            self._learn_size(causes, directory)
        if is_exact:
            for cause in causes:
                self._reject(cause, names)
        elif causes[0].code not in SIZE_CODES:
            origins = {cause.record.origin for cause in causes if cause.record is not None}
            self.alone.setdefault(causes[0].topic, set()).update(origins)

    def _learn_size(self, causes: list[Rejection], directory: TopicDirectory) -> None:
        topic = causes[0].topic
        records = [cause.record for cause in causes if cause.record is not None]
        sizes = [record_bytes_max(*record[2:5]) for record in records]
        if len(sizes) == 1:
            directory.learn_limit(topic, bytes_max=sizes[0] - 1)
        else:
            directory.learn_limit(topic, cut_bytes=sum(sizes) // 2)

    def _reject(self, rejection: Rejection, names: TopicNames) -> None:
        record = rejection.record
        if record is None or record.origin is None:
            raise _untaken_error(rejection)
        is_discard = rejection.topic == names.discarded
        reason = RECORD_REASONS[rejection.code]
        detail = f"{rejection.topic}: {rejection.text}"
        self.rejected[record.origin] = Refusal(
            RefusedReason.DISCARD_REJECTED if is_discard else reason, detail
        )

    def _learn_of_refused(self, causes: list[Rejection], directory: TopicDirectory) -> None:
        """Let refused records be written without their contents, unless that was tried before."""
        records = [cause.record for cause in causes if cause.record is not None]
        if len(records) < len(causes):
            return
        if causes[0].code in SIZE_CODES:
            self._learn_size(causes, directory)
            if len(causes) > 1:
                return
        origins = {record.origin for record in records if record.origin is not None}
        found = origins - self.without_content
        if not found:
            raise _untaken_error(causes[0])
        self.without_content |= found

    def _count_timeout(self, rejection: Rejection) -> None:
        """Count a try that only ran out of time.

        Records for a vanished topic find no leader in time, and hold up those that the same
        transaction has for other topics. Only the cluster knows which topic it was.
        """
        self.timeouts += 1
        if self.timeouts > TIMEOUTS_MAX:
            raise _untaken_error(rejection)


def _causes_in(rejections: Sequence[Rejection]) -> list[Rejection]:
    """Return the rejections that were caused by their own record."""
    return [one for one in rejections if one.code not in (KafkaError._MSG_TIMED_OUT, BYSTANDER)]


def _untaken_error(rejection: Rejection) -> BrokerError:
    remedy = "Check the topic's settings and the pipeline's rights with `checkback doctor`."
    if rejection.code == KafkaError._UNKNOWN_PARTITION:
        remedy = "Give the topic as many partitions as the half topic has."
    if rejection.code == KafkaError.INVALID_TIMESTAMP:
        remedy = "Set the clock of the machine that writes by NTP: it is ahead of the brokers'."
    return BrokerError(
        f"Kafka does not take records for {rejection.topic}: {rejection.text}.",
        remedy=remedy,
        topic=rejection.topic,
    )
