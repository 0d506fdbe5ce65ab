"""Errors of consumers: those that pass by themselves, and all others."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError

_PASSING: Final = (
    KafkaError._PARTITION_EOF,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    # A reader that commits nothing, of partitions that its caller assigns, has a group only because
    # librdkafka wants one. It reads without a right to that group.
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


def require_passing(error: KafkaError, topic: str | None, partition: int | None) -> None:
    """Raise an event's error unless it passes by itself.

    Raises:
        BrokerError: the event is an error that does not pass by itself.
    """
    if error.retriable() or error.code() in _PASSING:
        return
    raise BrokerError(
        f"Reading {topic}-{partition} failed: {error.str()}.",
        remedy="Check that the topic exists and that this user may read it.",
        topic=topic,
        code=error.name(),
    )
