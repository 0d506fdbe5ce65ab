"""What the tries of one batch have taught: which outputs Kafka will not take, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks.real_topics import TopicDirectory
from checkback.sinks.transaction import Rejection

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
Position = tuple[int, int]
"""(half partition, half offset)."""


@dataclass(slots=True)
class Lessons:
    """Lessons of one batch; the next batch begins without any.

    Args:
        closed_topics: topics that take nothing, and why.
        one_by_one: topics whose records are sent one to a batch, to find the one too large.
        too_large: halves whose finals were.
    """

    closed_topics: dict[str, RefusedReason] = field(default_factory=dict)
    one_by_one: set[str] = field(default_factory=set)
    too_large: set[Position] = field(default_factory=set)

    def refusal(self, topic: str, position: Position) -> RefusedReason | None:
        """Return why a final can't go to that topic, None if nothing is known against it."""
        if position in self.too_large:
            return RefusedReason.FINAL_TOO_LARGE
        return self.closed_topics.get(topic)

    def learn(
        self,
        rejections: Sequence[Rejection],
        names: TopicNames,
        directory: TopicDirectory,
        last_finals: dict[str, Position],
    ) -> None:
        """Draw the conclusion from what Kafka rejected, so that the next try gets past it.

        Args:
            rejections: of one try.
            names: topics that have to take everything.
            directory: forgets what the rejections contradict.
            last_finals: by topic, the half whose final was sent last.

        Raises:
            BrokerError: it rejected what only a change at the broker can make it take.
        """
        ours = {names.refused, names.discarded, names.settled, names.op}
        # A batch is rejected whole, each of its records reporting it: one lesson per topic.
        for rejection in {one.topic: one for one in rejections}.values():
            topic = rejection.topic
            directory.forget(topic)
            reason = _reason_of(rejection, directory)
            too_large = rejection.code in TOO_LARGE_CODES
            if topic in ours or (reason is None and not too_large):
                raise _hopeless(rejection)
            if reason is not None:
                self.closed_topics[topic] = reason
            elif topic in self.one_by_one:
                self.too_large.add(last_finals[topic])
            else:
                self.one_by_one.add(topic)


def _reason_of(rejection: Rejection, directory: TopicDirectory) -> RefusedReason | None:
    if rejection.code != KafkaError._MSG_TIMED_OUT:
        return REJECTION_REASONS.get(rejection.code)
    # A topic that vanished shows as records that found no leader in time.
    gone = directory.find(rejection.topic) is None
    return RefusedReason.REAL_TOPIC_MISSING if gone else None


def _hopeless(rejection: Rejection) -> BrokerError:
    return BrokerError(
        f"Kafka does not take records for {rejection.topic}: {rejection.text}.",
        remedy="Check the topic's settings and the pipeline's rights with `checkback doctor`.",
        topic=rejection.topic,
    )
