"""Writes access rules to a topic, from which a pipeline reads them."""

from __future__ import annotations

from typing import Final

from checkback.deploy.admin import admin_client
from checkback.deploy.topics import create_missing, find_topics
from checkback.operations.positions import Position
from checkback.operations.writing import append
from checkback.protocol.configuration import Settings
from checkback.protocol.topics import TopicPlan

KEY: Final = b"plain_acl.yml"
"""One key, so that compaction leaves the newest rules."""
CONFIGS: Final = {"cleanup.policy": "compact"}


def publish_rules(settings: Settings, topic: str, rules: bytes) -> Position:
    """Append rules to a topic and return where they are.

    Args:
        settings: brokers and security.
        topic: its name; made if it is missing, with one partition and compacted.
        rules: the text of a plain_acl.yml.

    Raises:
        BrokerError: Kafka can't be reached, or refuses.
    """
    with admin_client(settings.bootstrap_servers, settings.kafka) as admin:
        if topic not in find_topics(admin, [topic]):
            create_missing(admin, [TopicPlan(topic, 1, CONFIGS, settings.replication_factor)])
    return append(settings.connection(), topic, 0, KEY, rules, [])
