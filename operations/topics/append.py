"""Appends single records of operators, among them access rules."""

from __future__ import annotations

from typing import Any, Final

from checkback.deploy.topics import create_missing
from checkback.operations.topics.position import Position
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import Headers
from checkback.protocol.topics import TopicPlan
from checkback.streaming.start.announce import produce_and_wait


def append(
    connection: dict[str, Any],
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> Position:
    """Append one record and return its position; after a BrokerError it may be stored, too."""
    safe = {**connection, "enable.idempotence": True}
    stored = produce_and_wait(safe, topic, value, key=key, headers=headers, partition=partition)
    return Position(stored.partition() or 0, stored.offset() or 0)


KEY: Final = b"plain_acl.yml"
"""One key, so that compaction leaves the newest rules."""
CONFIGS: Final = {"cleanup.policy": "compact"}


def publish_rules(settings: Settings, topic: str, rules: bytes) -> Position:
    """Append rules to a topic, made with one compacted partition if missing; return their place."""
    create_missing(settings, [TopicPlan(topic, 1, CONFIGS, settings.replication_factor)])
    return append(settings.connection(), topic, 0, KEY, rules, [])
