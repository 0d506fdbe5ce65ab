"""Appends single records and waits until Kafka has stored them."""

from __future__ import annotations

from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from checkback.operations.positions import Position
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import Headers
from checkback.sinks.kafka.kafka_error import cause_of
from checkback.sinks.kafka.sink_record import SentHeaders

STORE_TIMEOUT_S: Final = 30.0


def append(
    connection: dict[str, Any],
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> Position:
    """Append one record and return its position.

    Raises:
        BrokerError: the record may not be stored.
    """
    safe = {**connection, "enable.idempotence": True}
    return _append(safe, topic, partition, key, value, headers)[0]


def append_timed(
    connection: dict[str, Any], topic: str, value: bytes, headers: Headers
) -> tuple[int, int]:
    """Append a record to partition 0; return its timestamp's type and milliseconds.

    The record may be stored twice: a producer that may not waits half a second for its number.

    Raises:
        BrokerError: the record may not be stored.
    """
    return _append(connection, topic, 0, None, value, headers)[1]


def _append(
    connection: dict[str, Any],
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> tuple[Position, tuple[int, int]]:
    stored: list[Message] = []
    errors: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stored.append(message)
        else:
            errors.append(error.str())

    timeout_ms = int(STORE_TIMEOUT_S * 1_000)
    try:
        producer = Producer({"delivery.timeout.ms": timeout_ms, "log_level": 2, **connection})
        producer.produce(
            topic,
            value,
            key,
            partition,
            headers=cast("SentHeaders", headers),
            on_delivery=delivered,
        )
        producer.flush(STORE_TIMEOUT_S)
    except KafkaException as error:
        errors.append(cause_of(error).str())
    if not stored:
        raise BrokerError(
            f"A record for {topic} may not be stored: {''.join(errors) or 'no answer'}.",
            remedy="Check the brokers and that this user may write to the topic.",
            topic=topic,
        )
    message = stored[0]
    return Position(message.partition() or 0, message.offset() or 0), message.timestamp()
