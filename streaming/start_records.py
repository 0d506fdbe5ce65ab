"""What a start writes: a tick for Spark, and what holds from now on for clients."""

from __future__ import annotations

from typing import Any, Final, cast

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from checkback.protocol import records
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.status import STATUS_KEY, PipelineStatus
from checkback.sinks.kafka.sink_record import SentHeaders

TIMEOUT_S: Final = 30.0


def publish_status(settings: Settings, connection: dict[str, Any], now_ms: int) -> bool:
    """Write this start's status; return whether there is a topic for it.

    Args:
        settings: the job's.
        connection: librdkafka's settings for the connection.
        now_ms: the time of the start.

    Raises:
        BrokerError: the topic is there and could not be written.
    """
    topic = settings.topics.status
    # All topics: asking for one by name makes some brokers create it.
    if topic not in AdminClient(connection).list_topics(timeout=TIMEOUT_S).topics:
        return False
    status = PipelineStatus(settings.reject_transactions, settings.check_interval_ms, now_ms)
    failures: list[str] = []
    producer = Producer({**connection, "enable.idempotence": True})
    producer.produce(
        topic,
        status.to_json(),
        STATUS_KEY,
        0,
        on_delivery=lambda error, _: failures.append(error.str()) if error else None,
    )
    if producer.flush(TIMEOUT_S) or failures:
        raise BrokerError(
            f"The pipeline's status could not be written to {topic}: "
            f"{failures or f'no answer in {TIMEOUT_S:.0f} s'}.",
            remedy="Check that the pipeline may write to the topic.",
            topic=topic,
        )
    return True


def write_tick(settings: Settings, connection: dict[str, Any]) -> None:
    """Write a record that means nothing: without new data Spark fires no timeout after a restart.

    Raises:
        BrokerError: it could not be written.
    """
    failures: list[str] = []
    producer = Producer({**connection, "acks": "all"})
    producer.produce(
        settings.topics.feedback,
        value=b"",
        partition=0,
        headers=cast("SentHeaders", records.tick_headers()),
        on_delivery=lambda error, _: failures.append(error.str()) if error else None,
    )
    if producer.flush(30.0) or failures:
        raise BrokerError(
            f"The start record could not be written to {settings.topics.feedback}: "
            f"{failures or 'no answer in 30 s'}.",
            remedy="Check that the pipeline may write to the topic.",
        )
