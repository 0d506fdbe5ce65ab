"""The records that a start writes: a tick for Spark, and the status for clients."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.protocol import records
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError
from checkback.protocol.records import STATUS_KEY, PipelineStatus
from checkback.sinks.kafka.asking_again import asked_again, said_by
from checkback.streaming.one_record import append_one

TIMEOUT_S: Final = 30.0


def publish_status(settings: Settings, connection: dict[str, Any], now_ms: int) -> bool:
    """Write this start's status; return whether there is a topic for it.

    Args:
        settings: the job's.
        connection: librdkafka's settings for the connection.
        now_ms: the time of the start.

    Raises:
        BrokerError: the brokers do not answer, or the topic is there and could not be written.
    """
    topic = settings.topics.status
    # All topics: asking for one by name makes some brokers create it.
    admin = AdminClient(connection)
    try:
        known = asked_again(lambda: admin.list_topics(timeout=TIMEOUT_S).topics, TIMEOUT_S)
    except KafkaException as error:
        raise BrokerError(
            f"The topics can't be listed: {said_by(error)}.", remedy="Check the brokers."
        ) from error
    if topic not in known:
        return False
    status = PipelineStatus(settings.reject_transactions, settings.check_interval_ms, now_ms)
    append_one({**connection, "enable.idempotence": True}, topic, status.to_json(), key=STATUS_KEY)
    return True


def write_tick(settings: Settings, connection: dict[str, Any]) -> int | None:
    """Write a record that means nothing: without new data Spark fires no timeout after a restart.

    Returns:
        When the broker stored it, by its clock; None where the topic does not tell.

    Raises:
        BrokerError: it could not be written.
    """
    tick = append_one(connection, settings.topics.feedback, b"", headers=records.tick_headers())
    kind, time_ms = tick.timestamp()
    return time_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None
