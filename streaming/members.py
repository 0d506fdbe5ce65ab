"""Who is there to answer for a producer group."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.sinks.kafka_error import cause_of

TIMEOUT_S: Final = 10.0


def live_members(admin: AdminClient, group: str) -> int | None:
    """Return how many processes of a producer group read its check requests now.

    A group that never was has none; None where this user may not look.

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
    """Return those groups that are asked while nobody is there to answer, in order.

    For progress only: brokers that do not answer make it say nothing. It asks every broker for the
    group, not the group's coordinator: a connection to one that breaks meanwhile makes librdkafka
    free its request twice and abort the process, which here is the driver (librdkafka #3663, #4605;
    2.16.1).
    """
    try:
        return [group for group in sorted(groups) if _has_no_members(admin, group)]
    except (KafkaException, TimeoutError):
        return []


def _has_no_members(admin: AdminClient, group: str) -> bool:
    with warnings.catch_warnings():
        # Deprecated in favour of just those calls that abort.
        warnings.simplefilter("ignore", DeprecationWarning)
        found: Any = admin.list_groups(group, TIMEOUT_S)
    return not any(one.error is None and one.members for one in found)
