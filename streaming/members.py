"""The live members of producer groups."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.sinks.kafka.kafka_error import cause_of

TIMEOUT_S: Final = 10.0


def live_members(admin: AdminClient, group: str) -> int | None:
    """Return how many processes of a producer group read its check requests now.

    An unknown group has none. Returns None if this user may not see the members.

    Raises:
        KafkaException: the brokers do not answer.
    """
    asked: Any = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)
    try:
        return len(asked[group].result(TIMEOUT_S).members)
    except KafkaException as error:
        if cause_of(error).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        if cause_of(error).code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return None
        raise


def groups_without_members(admin: AdminClient, groups: Iterable[str]) -> list[str]:
    """Return those of the groups that have no live member, in order.

    Only progress lines use this, so it returns nothing if the brokers do not answer. It asks every
    broker for the group, not the group's coordinator: if the connection to a coordinator breaks
    meanwhile, librdkafka frees its request twice and aborts the process, here the driver
    (librdkafka #3663, #4605; 2.16.1).
    """
    try:
        return [group for group in sorted(groups) if not listed_members(admin, group)]
    except (KafkaException, TimeoutError):
        return []


def listed_members(admin: AdminClient, group: str) -> int | None:
    """Return how many live members the brokers list for a group, for processes that run for long.

    Returns None if this user may not see the members.

    Raises:
        KafkaException: the brokers do not answer.
    """
    with warnings.catch_warnings():
        # Deprecated in favour of the very calls that abort.
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Any = admin.list_groups(group, TIMEOUT_S)
    if any(_is_forbidden(one.error) for one in found):
        return None
    return sum(len(one.members) for one in found if one.error is None)


def _is_forbidden(error: Any) -> bool:
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
