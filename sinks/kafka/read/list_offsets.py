"""Asks leaders where partitions begin and end, or where they reach a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.protocol.errors import BrokerError, CheckpointError
from checkback.sinks.kafka.cluster.transient_errors import (
    LEADER_MOVES,
    PAUSE_S,
    is_transient,
    listed_topics,
    renew_metadata,
    said_by,
)

Place = tuple[str, int]
"""Topic and partition."""
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()
LATEST: Final[OffsetSpec] = OffsetSpec.latest()
EVERY: Final = IsolationLevel.READ_UNCOMMITTED
COMMITTED: Final = IsolationLevel.READ_COMMITTED
LIST_S: Final = 20.0
UNKNOWN_YET: Final = LEADER_MOVES | {KafkaError._UNKNOWN_PARTITION, KafkaError._TIMED_OUT}
"""Errors after which the same question may get an answer. librdkafka does not ask the brokers about
a partition that was added since it last looked, which may be minutes ago; and a leader that died
leaves a request without an answer, until brokers notice and elect another."""


NO_EPOCH: Final = -1


class LogEnd(NamedTuple):
    """The offset that a look at a partition found, and the leader epoch there, NO_EPOCH if none."""

    offset: int
    leader_epoch: int


def by_place(offsets: Mapping[str, Mapping[int, int]]) -> dict[Place, int]:
    """Return the offset of each partition, from those by topic and partition."""
    return {(topic, at): offset for topic, parts in offsets.items() for at, offset in parts.items()}


def listed_offsets(
    admin: Any,  # untyped: the stubs know little of listing offsets
    places: Iterable[Place],
    which: OffsetSpec = LATEST,
    isolation: IsolationLevel = EVERY,
    timeout_s: float = LIST_S,
    *,
    retry_s: float = LIST_S,
    pause: Callable[[float], None] = time.sleep,
) -> dict[Place, int]:
    """Return one offset of each partition, as `listed_ends` finds it."""
    found = listed_ends(admin, places, which, isolation, timeout_s, retry_s=retry_s, pause=pause)
    return {place: end.offset for place, end in found.items()}


def listed_ends(
    admin: Any,
    places: Iterable[Place],
    which: OffsetSpec = LATEST,
    isolation: IsolationLevel = EVERY,
    timeout_s: float = LIST_S,
    *,
    retry_s: float = LIST_S,
    pause: Callable[[float], None] = time.sleep,
) -> dict[Place, LogEnd]:
    """Return one offset of each partition; -1 where no record is as young as `which` asks.

    Args:
        which: the first offset, the last, or that of a time.
        isolation: whether the end is the one for readers of committed records.
        timeout_s: bounds each request.
        retry_s: for how long to ask again while a partition's leader is changing or silent.

    Raises:
        BrokerError: the brokers do not answer, or refuse, or a partition has no leader.
    """
    until_s = time.monotonic() + retry_s
    found: dict[Place, LogEnd] = {}
    left, is_first = list(places), True
    while left:
        asked = {TopicPartition(*place): which for place in left}
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=timeout_s)
        left = []
        for at, answer in answers.items():
            place = (at.topic, at.partition)
            try:
                told = answer.result(2 * timeout_s)
                epoch = NO_EPOCH if told.leader_epoch is None else told.leader_epoch
                found[place] = LogEnd(int(told.offset), int(epoch))
            except (KafkaException, TimeoutError) as error:
                is_late = time.monotonic() >= until_s
                may_be_new = is_first and is_transient(error, {KafkaError._UNKNOWN_PARTITION})
                if not may_be_new and (is_late or not is_transient(error, UNKNOWN_YET)):
                    raise _explained(error, place) from error
                left.append(place)
        is_first = False
        if left:
            pause(PAUSE_S)
            renew_metadata(admin, timeout_s)
    return found


def places_of(
    admin: Any, topics: Iterable[str], timeout_s: float, retry_s: float | None = None
) -> list[Place]:
    """Return the partitions of those topics that exist, as `listed_topics` lists them.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    known = listed_topics(admin, timeout_s, retry_s)
    return [(topic, at) for topic in topics if topic in known for at in known[topic].partitions]


def ends_without_transactions(
    connection: Mapping[str, Any], topic: str, partitions: int, timeout_s: float
) -> dict[int, int]:
    """Wait until every Kafka transaction on a topic has ended; return where its partitions end.

    Raises:
        CheckpointError: a transaction is still open, so a producer is writing.
        BrokerError: the brokers do not answer.
    """
    admin = AdminClient(dict(connection))
    ends = listed_offsets(admin, [(topic, number) for number in range(partitions)])
    wait_for_transactions(admin, ends, timeout_s, "Stop everything that writes to this topic")
    return {number: end for (_, number), end in ends.items()}


def wait_for_transactions(
    admin: Any, ends: Mapping[Place, int], timeout_s: float, remedy: str
) -> None:
    """Wait until no Kafka transaction hides what stands in front of these ends of a topic.

    Args:
        remedy: what ends such transactions.

    Raises:
        CheckpointError: a transaction is still open.
        BrokerError: the brokers do not answer.
    """
    until_s = time.monotonic() + timeout_s
    while True:
        stable = listed_offsets(admin, ends, isolation=COMMITTED)
        hidden = sorted(place for place, end in ends.items() if stable[place] < end)
        if not hidden:
            return
        if time.monotonic() > until_s:
            partitions = [number for _, number in hidden]
            raise CheckpointError(
                f"Partitions {partitions} of {hidden[0][0]} have a Kafka transaction that did not "
                f"end in {timeout_s:.0f} s.",
                remedy=f"{remedy}, then try again.",
                partitions=partitions,
            )
        time.sleep(PAUSE_S)


def _explained(error: KafkaException | TimeoutError, place: Place) -> BrokerError:
    topic, partition = place
    return BrokerError(
        f"The offsets of {topic}-{partition} can't be read: {said_by(error)}.",
        remedy="Check bootstrap_servers, the brokers, and this user's rights on the topic.",
        topic=topic,
        partition=partition,
    )
