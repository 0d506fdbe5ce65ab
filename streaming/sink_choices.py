"""Derives the settings of the sink from those of the pipeline."""

from __future__ import annotations

from typing import Any

from checkback.protocol.configuration import Settings
from checkback.protocol.topics import HEADER_ROOM_BYTES
from checkback.sinks.kafka.settings import SinkSettings
from checkback.streaming.cores import executor_cores
from checkback.streaming.transaction_timeout import LEAST_MS


def sink_settings(settings: Settings, connection: dict[str, Any], query_id: str) -> SinkSettings:
    """Return what the sink has to know of the settings."""
    return SinkSettings(
        settings.application_id,
        query_id,
        settings.topic_prefix,
        connection,
        settings.sink_transaction_timeout_ms or LEAST_MS,
        settings.max_message_bytes + 3 * HEADER_ROOM_BYTES,
        keeps_ledger=bool(settings.ledger),
        native_sink=settings.native_sink,
        check_interval_ms=settings.check_interval_ms,
        log_format=settings.log_format,
        log_level=settings.log_level,
        rules_topic=settings.topics.rules,
        processes=executor_cores(settings),
    )
