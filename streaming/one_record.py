"""Appends a single record and waits until Kafka has stored it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import Headers
from checkback.sinks.kafka.errors import cause_of
from checkback.sinks.kafka.sink_record import sent_headers

STORE_TIMEOUT_S: Final = 30.0


def append_one(
    connection: Mapping[str, Any],
    topic: str,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Headers | None = None,
    partition: int = 0,
) -> Message:
    """Append one record and return Kafka's report of where and when it was stored.

    Without idempotence it may be stored twice.

    Args:
        connection: librdkafka's settings for the connection.
        topic: where to.
        value: the record's.
        key: the record's.
        headers: the record's.
        partition: of the topic.

    Raises:
        BrokerError: the record may not be stored.
    """
    stored: list[Message] = []
    errors: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stored.append(message)
        else:
            errors.append(error.str())

    timeout_ms = int(STORE_TIMEOUT_S * 1_000)
    own = {"delivery.timeout.ms": timeout_ms}
    sent = sent_headers(headers or [])
    try:
        producer = Producer({**own, **connection, "acks": "all"})
        producer.produce(topic, value, key, partition, headers=sent, on_delivery=delivered)
        producer.flush(STORE_TIMEOUT_S)
    except KafkaException as error:
        errors.append(cause_of(error).str())
    if not stored:
        raise BrokerError(
            f"A record for {topic} may not be stored: {''.join(errors) or 'no answer'}.",
            remedy="Check the brokers and that this user may write to the topic.",
            topic=topic,
        )
    return stored[0]
