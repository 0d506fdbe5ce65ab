"""Asks brokers for the ids of topics, and for their numbers of partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.topic_directory import LASTING_ERRORS
from checkback.sinks.kafka.cluster.transient_errors import PAUSE_S, is_transient
from checkback.sinks.kafka.transaction.errors import cause_of

TIMEOUT_S: Final = 10.0
MADE_S: Final = 2.0
"""How long the asked broker may not know a topic that was just created."""
UNKNOWN: Final = KafkaError.UNKNOWN_TOPIC_OR_PART


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """The id and the number of partitions of a topic."""

    topic_id: str
    partitions: int


def describe_topics(
    admin: AdminClient, needed: Sequence[str], pause: Callable[[float], object] = time.sleep
) -> dict[str, DescribedTopic]:
    """Return the facts of topics; waits a while for one that was just created.

    Raises:
        BrokerError: a topic is missing, or the brokers do not answer.
    """
    began_s = time.monotonic()
    facts: dict[str, DescribedTopic] = {}
    while True:
        unseen = _described(admin, [name for name in needed if name not in facts], facts)
        if not unseen:
            return facts
        may_be_missing = {error.code() for error in unseen.values()} == {UNKNOWN}
        if time.monotonic() - began_s >= (MADE_S if may_be_missing else TIMEOUT_S):
            raise _undescribed_error(unseen)
        pause(PAUSE_S)


def _described(
    admin: AdminClient, names: list[str], facts: dict[str, DescribedTopic]
) -> dict[str, KafkaError]:
    """Add the facts of the topics that the brokers describe; return the errors of the others."""
    unseen = {}
    asked = admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S)
    for name, future in asked.items():
        try:
            description = future.result(2 * TIMEOUT_S)
        except KafkaException as error:
            unseen[name] = cause_of(error)
            if not is_transient(error):
                raise _undescribed_error(unseen) from error
        else:
            facts[name] = DescribedTopic(str(description.topic_id), len(description.partitions))
    return unseen


def _undescribed_error(unseen: Mapping[str, KafkaError]) -> BrokerError:
    """Return the error for topics that brokers do not describe.

    It advises to create them only where the brokers say nothing else than that they are missing.
    """
    hidden = ((topic, error) for topic, error in unseen.items() if error.code() != UNKNOWN)
    for topic, error in hidden:
        may_not = error.code() in LASTING_ERRORS
        rights = "Check this user's rights on the topic; `checkback acl grants` prints them."
        return BrokerError(
            f"The brokers do not describe {topic}: {error.str()}.",
            remedy=rights if may_not else "Check that all brokers are up, and start again.",
            topic=topic,
            code=error.name(),
        )
    return BrokerError(
        f"Missing topics: {', '.join(sorted(unseen))}.",
        remedy="Run `checkback topics create` with the same settings.",
        missing=sorted(unseen),
    )
