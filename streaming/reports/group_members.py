"""The live members of producer groups, and of the relays' group.

Producers share the check requests as a consumer group, which has the name of the check topic.
"""

from __future__ import annotations

import random
import struct
import time
import warnings
from collections.abc import Callable, Collection
from itertools import takewhile
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.transient_errors import (
    COORDINATOR_MOVES,
    is_transient,
    retry_transient,
)

TIMEOUT_S: Final = 10.0
LOOK_S_MAX: Final = 5.0
NEWER_PROTOCOL: Final = "Dead"
"""The state that brokers state of a group which they list, but which has the newer protocol of
groups (KIP-848): they do not describe it by the request that is asked here."""


def live_members(admin: AdminClient, group: str, topic: str = "") -> int | None:
    """Return how many members of a group subscribe to a topic now, by default the group's own name.

    So for a check topic these are the processes that read its requests. An unknown group has none.
    Returns None if this user may not see the members, or if they can't be counted.
    """
    return retry_transient(lambda: listed_members(admin, group, topic), TIMEOUT_S)


def groups_without_members(
    admin: AdminClient,
    names: TopicNames,
    groups: Collection[str],
    clock_s: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Return the producer groups without a live member, in order.

    Only progress lines use this, so it returns nothing if the brokers do not answer.

    Very many groups would keep the driver from its other work: after LOOK_S_MAX it leaves the rest
    out.
    """
    until_s = clock_s() + LOOK_S_MAX
    in_any_order = random.sample(sorted(groups), len(groups))
    in_time = takewhile(lambda _: clock_s() < until_s, in_any_order)
    try:
        return sorted(group for group in in_time if _is_empty(admin, names.check(group)))
    except (KafkaException, TimeoutError):
        return []


def _is_empty(admin: AdminClient, check_topic: str) -> bool:
    """Return whether a group certainly has no live member."""
    try:
        return listed_members(admin, check_topic) == 0
    except KafkaException as error:
        if is_transient(error, COORDINATOR_MOVES):
            return False
        raise


def listed_members(admin: AdminClient, group: str, topic: str = "") -> int | None:
    """Return how many members of a group subscribe to a topic, as the brokers list them.

    Without a topic it is the one with the group's name. Returns None if this user may not see the
    members, or the group has the newer protocol.

    It asks every broker for the group, not the group's coordinator: if the connection to a
    coordinator breaks meanwhile, librdkafka frees its request twice and aborts the process
    (librdkafka #3663, #4605; 2.16.1).

    Raises:
        KafkaException: the brokers do not answer, or the group's coordinator just moves.
    """
    with warnings.catch_warnings():
        # Deprecated in favour of the very calls that abort.
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Any = admin.list_groups(group, TIMEOUT_S)
    for listed in found:
        code = None if listed.error is None else listed.error.code()
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return None
        if code not in (None, KafkaError.GROUP_ID_NOT_FOUND):
            raise KafkaException(listed.error)
        if listed.state == NEWER_PROTOCOL:
            return None
    # While the group rebalances, brokers do not say what its members subscribe to.
    members = [member.metadata for listed in found for member in listed.members]
    wanted = topic or group
    return sum(not metadata or wanted in _subscription(metadata) for metadata in members)


def _subscription(metadata: bytes) -> list[str]:
    """Return the topics that a member subscribes to, by what it said when it joined.

    Kafka's ConsumerProtocolSubscription begins with a version and the topics' names. What is none
    names no topics.
    """
    try:
        (number,) = struct.unpack_from(">i", metadata, 2)
        topics, at = [], 6
        for _ in range(number):
            (length,) = struct.unpack_from(">h", metadata, at)
            at += 2
            topics.append(metadata[at : at + length].decode())
            at += length
    except (struct.error, UnicodeDecodeError):
        return []
    return topics
