"""Appends single records: a start's status for clients, and ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from checkback.protocol import records
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.properties import Headers
from checkback.protocol.records import STATUS_KEY, PipelineStatus
from checkback.sinks.kafka.cluster.transient_errors import listed_topics
from checkback.sinks.kafka.transaction.errors import cause_of
from checkback.sinks.records.sink_record import sent_headers

TIMEOUT_S: Final = 30.0
STORE_TIMEOUT_S: Final = 30.0


def publish_status(settings: Settings, connection: dict[str, Any], now_ms: int) -> bool:
    """Write this start's status; return whether there is a topic for it.

    Raises:
        BrokerError: the brokers do not answer, or the topic is there and could not be written.
    """
    topic = settings.topics.status
    if topic not in listed_topics(AdminClient(connection), TIMEOUT_S):
        return False
    status = PipelineStatus(settings.reject_transactions, settings.check_interval_ms, now_ms)
    produce_and_wait(
        {**connection, "enable.idempotence": True}, topic, status.to_json(), key=STATUS_KEY
    )
    return True


def write_tick(settings: Settings, timeout_s: float = STORE_TIMEOUT_S) -> int | None:
    """Write a tick: without new data Spark fires no timeout after a restart.

    Returns:
        When the broker stored it, by its clock; None where the topic has no such times.
    """
    # Not idempotent: such a producer would first wait half a second for its id.
    headers, topic = records.tick_headers(), settings.topics.feedback
    tick = produce_and_wait(settings.connection(), topic, b"", headers=headers, timeout_s=timeout_s)
    kind, time_ms = tick.timestamp()
    return time_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None


def produce_and_wait(
    connection: Mapping[str, Any],
    topic: str,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Headers | None = None,
    partition: int = 0,
    timeout_s: float = STORE_TIMEOUT_S,
) -> Message:
    """Append one record and return Kafka's report of where and when it was stored.

    Without idempotence it may be stored twice.
    """
    stored: list[Message] = []
    errors: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stored.append(message)
        else:
            errors.append(error.str())

    timeout_ms = int(timeout_s * 1_000)
    own = {"delivery.timeout.ms": timeout_ms}
    sent = sent_headers(headers or [])
    try:
        producer = Producer({**own, **connection, "acks": "all"})
        producer.produce(
            topic=topic, value=value, key=key, partition=partition, headers=sent,
            on_delivery=delivered,
        )  # fmt: skip
        producer.flush(timeout_s)
    except KafkaException as error:
        errors.append(cause_of(error).str())
    if not stored:
        raise BrokerError(
            f"A record for {topic} may not be stored: {''.join(errors) or 'no answer'}.",
            remedy="Check the brokers and that this user may write to the topic.",
            topic=topic,
        )
    return stored[0]
