"""Finds share groups to which Kafka gives the messages of aborted transactions, too."""

from __future__ import annotations

from typing import Final

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import UnsupportedVersionError

from checkback.sinks.kafka.cluster.kafka_python_admin import Admin

SHARE: Final = "share"
ISOLATION: Final = "share.isolation.level"
READ_COMMITTED: Final = "read_committed"


def isolation_of_share_groups(admin: Admin) -> dict[str, str]:
    """Return `share.isolation.level` of each share group; "" where this user may not see it.

    librdkafka does not list the groups' types. What topics a share group reads neither client can
    ask.

    Raises:
        KafkaError: the brokers do not answer, or refuse.
    """
    try:
        listed = admin.list_groups(types_filter=[SHARE])
    except UnsupportedVersionError:  # brokers before Kafka 4.0 have no share groups
        return {}
    names = sorted({group["group_id"] for group in listed if group.get("group_type") == SHARE})
    if not names:
        return {}
    asked = [ConfigResource(ConfigResourceType.GROUP, name, [ISOLATION]) for name in names]
    found = admin.describe_configs(asked, config_filter="all").get("group", {})
    return {name: found.get(name, {}).get(ISOLATION, {}).get("value") or "" for name in names}


def isolation_command(bootstrap_servers: str, group: str) -> str:
    """Return Kafka's command that hides aborted messages from a share group."""
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap_servers} --alter --entity-type groups"
        f" --entity-name {group} --add-config {ISOLATION}={READ_COMMITTED}"
    )
