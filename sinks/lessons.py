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

TOPIC_REASONS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: RefusedReason.REAL_TOPIC_DENIED,
    KafkaError.TOPIC_EXCEPTION: RefusedReason.REAL_TOPIC_MISSING,
    KafkaError.UNKNOWN_TOPIC_OR_PART: RefusedReason.REAL_TOPIC_MISSING,
    KafkaError._UNKNOWN_TOPIC: RefusedReason.REAL_TOPIC_MISSING,
    KafkaError._UNKNOWN_PARTITION: RefusedReason.REAL_TOPIC_MISSING,
}
"""Why a topic takes nothing."""
RECORD_REASONS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: RefusedReason.FINAL_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: RefusedReason.FINAL_TOO_LARGE,
    KafkaError.INVALID_RECORD: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_TIMESTAMP: RefusedReason.FINAL_REJECTED,
    KafkaError.INVALID_MSG: RefusedReason.FINAL_REJECTED,
    KafkaError.POLICY_VIOLATION: RefusedReason.FINAL_REJECTED,
}
"""Why one record is not taken; the broker rejects the whole batch that it is in."""
TIMEOUTS_MAX: Final = 2
Position = tuple[int, int]
"""(half partition, half offset)."""


@dataclass(slots=True)
class Lessons:
    """Lessons of one batch; the next batch begins without any.

    Args:
        closed_topics: topics that take nothing, and why.
        one_by_one: topics whose records are sent one to a batch, to find the one rejected.
        rejected: halves whose finals were, and why.
        timeouts: tries that ended because records were not taken in time.
    """

    closed_topics: dict[str, RefusedReason] = field(default_factory=dict)
    one_by_one: set[str] = field(default_factory=set)
    rejected: dict[Position, RefusedReason] = field(default_factory=dict)

    timeouts: int = 0

    def __bool__(self) -> bool:
        """Tell whether anything was learnt that a final has to be compared with."""
        return bool(self.closed_topics or self.rejected)

    def refusal(self, topic: str, position: Position) -> RefusedReason | None:
        """Return why a final can't go to that topic, None if nothing is known against it."""
        return self.rejected.get(position) or self.closed_topics.get(topic)

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
        told = [one for one in rejections if one.code != KafkaError._MSG_TIMED_OUT]
        if not told:
            self._look_again(rejections[0], directory)
            return
        ours = {names.refused, names.discarded, names.settled, names.op}
        # A batch is rejected whole, each of its records reporting it: one lesson per topic.
        for rejection in {one.topic: one for one in told}.values():
            topic = rejection.topic
            directory.forget(topic)
            of_topic = TOPIC_REASONS.get(rejection.code)
            of_record = RECORD_REASONS.get(rejection.code)
            if topic in ours or (of_topic is None and of_record is None):
                raise _hopeless(rejection)
            if of_topic is not None:
                self.closed_topics[topic] = of_topic
            elif of_record is not None and topic in self.one_by_one:
                self.rejected[last_finals[topic]] = of_record
            else:
                self.one_by_one.add(topic)

    def _look_again(self, rejection: Rejection, directory: TopicDirectory) -> None:
        """Have every topic looked up again.

        A topic that vanished shows as records that found no leader in time, and holds up what the
        same transaction has for other topics: which one it was, only the cluster knows.
        """
        directory.forget_all()
        self.timeouts += 1
        if self.timeouts > TIMEOUTS_MAX:
            raise _hopeless(rejection)


def _hopeless(rejection: Rejection) -> BrokerError:
    return BrokerError(
        f"Kafka does not take records for {rejection.topic}: {rejection.text}.",
        remedy="Check the topic's settings and the pipeline's rights with `checkback doctor`.",
        topic=rejection.topic,
    )
