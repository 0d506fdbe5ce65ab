"""The live members of producer groups."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Collection
from itertools import takewhile
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.sinks.kafka.cluster.transient_errors import (
    COORDINATOR_MOVES,
    asked_again,
    is_passing,
)
from checkback.sinks.kafka.transaction.errors import cause_of

TIMEOUT_S: Final = 10.0
LOOK_S_MAX: Final = 5.0


def live_members(admin: AdminClient, group: str) -> int | None:
    """Return how many processes of a producer group read its check requests now.

    An unknown group has none. Returns None if this user may not see the members.

    Raises:
        KafkaException, TimeoutError: the brokers do not answer.
    """
    try:
        return asked_again(lambda: _described_members(admin, group), TIMEOUT_S)
    except KafkaException as error:
        if cause_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        if cause_of(error).code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return None
        raise


def _described_members(admin: AdminClient, group: str) -> int:
    asked: Any = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)
    return len(asked[group].result(TIMEOUT_S).members)


def groups_without_members(
    admin: AdminClient, groups: Collection[str], clock_s: Callable[[], float] = time.monotonic
) -> list[str]:
    """Return the groups without a live member, in order.

    Only progress lines use this, so it returns nothing if the brokers do not answer. It asks every
    broker for the group, not the group's coordinator: if the connection to a coordinator breaks
    meanwhile, librdkafka frees its request twice and aborts the process, here the driver
    (librdkafka #3663, #4605; 2.16.1).

    Very many groups would keep the driver from its other work: after LOOK_S_MAX it leaves the rest
    out.

    Args:
        admin: an open admin client.
        groups: their names.
        clock_s: a clock that is never set.
    """
    until_s = clock_s() + LOOK_S_MAX
    in_any_order = random.sample(sorted(groups), len(groups))
    in_time = takewhile(lambda _: clock_s() < until_s, in_any_order)
    try:
        return sorted(group for group in in_time if _is_empty(admin, group))
    except (KafkaException, TimeoutError):
        return []


def _is_empty(admin: AdminClient, group: str) -> bool:
    """Return whether a group certainly has no live member."""
    try:
        return listed_members(admin, group) == 0
    except KafkaException as error:
        if is_passing(error, COORDINATOR_MOVES):
            return False
        raise


def listed_members(admin: AdminClient, group: str) -> int | None:
    """Return how many live members the brokers list for a group, for processes that run for long.

    Returns None if this user may not see the members.

    Raises:
        KafkaException: the brokers do not answer, or the group's coordinator just moves.
    """
    with warnings.catch_warnings():
        # Deprecated in favour of the very calls that abort.
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Any = admin.list_groups(group, TIMEOUT_S)
    if any(_is_forbidden(one.error) for one in found):
        return None
    for one in found:
        if one.error is not None and one.error.code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise KafkaException(one.error)
    return sum(len(one.members) for one in found)


def _is_forbidden(error: Any) -> bool:
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
