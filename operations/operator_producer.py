"""The transactional producer of an operator's command.

A deployment has one transactional id per command, so one operator at a time runs it: the second
operator's start aborts the first one's open transaction. Only after that does a command read what
was done before.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, FencedError
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.kafka.errors import FENCED_CODES, cause_of
from checkback.sinks.kafka.initialising import initialise

TIMEOUT_S: Final = 60.0


def open_producer(settings: Settings, connection: dict[str, Any], command: str) -> Producer:
    """Return a producer whose predecessor's transaction is ended.

    Args:
        settings: sizes and the deployment's name.
        connection: librdkafka's settings for the connection.
        command: what the operator does; part of the transactional id.

    Raises:
        BrokerError: the brokers do not answer, or do not allow this.
    """
    producer = Producer(
        {
            **connection,
            "partitioner": "murmur2_random",  # like all our other producers
            "transactional.id": f"{settings.application_id}-{command}",
            "message.max.bytes": settings.max_message_bytes + 3 * HEADER_ROOM_BYTES,
            "delivery.timeout.ms": int(TIMEOUT_S * 1_000),
            "transaction.timeout.ms": int(TIMEOUT_S * 1_000),
            "allow.auto.create.topics": False,
        }
    )
    try:
        initialise(producer, settings.topics.half, TIMEOUT_S)
    except KafkaException as error:
        raise explained(error, command) from error
    return producer


def abort(producer: Producer) -> None:
    """End a transaction that failed; where the brokers can't be asked, they do it themselves."""
    with suppress(KafkaException):
        producer.abort_transaction(TIMEOUT_S)


def explained(error: KafkaException, command: str) -> BrokerError | FencedError:
    """Return what an operator reads when a transaction failed."""
    cause = cause_of(error)
    if cause.code() in FENCED_CODES:
        return FencedError(
            f"Another operator began to {command} messages.",
            remedy="List the messages again to see what was done, then try again.",
        )
    return BrokerError(
        f"Kafka did not take what was to {command}: {cause.str()}.",
        remedy="Check the brokers and that this user may write to these topics"
        " with this deployment's transactional ids.",
        code=cause.name(),
    )
