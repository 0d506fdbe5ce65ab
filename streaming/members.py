"""Who is there to answer for a producer group."""

from __future__ import annotations

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

    For progress only: brokers that do not answer make it say nothing.
    """
    try:
        return [group for group in sorted(groups) if live_members(admin, group) == 0]
    except (KafkaException, TimeoutError):
        return []
