"""Which share groups there are, and at which isolation they read."""

from __future__ import annotations

from typing import Any

from kafka.admin import ConfigResource
from kafka.errors import IncompatibleBrokerVersion

from checkback.sinks.kafka.cluster.share_groups import isolation_of_share_groups


class Brokers:
    """Brokers with two share groups, of which one may not be seen, beside a consumer group."""

    def list_groups(self, types_filter: list[str]) -> list[dict[str, Any]]:
        assert types_filter == ["share"]
        return [{"group_id": name, "group_type": "share"} for name in ("mails", "hidden")]

    def describe_configs(self, asked: list[ConfigResource], config_filter: str) -> dict[str, Any]:
        assert config_filter == "all"  # the default is in force, and what is looked for
        level = {"share.isolation.level": {"value": "read_uncommitted"}}
        return {"group": {one.name: level if one.name == "mails" else {} for one in asked}}


class OldBrokers:
    """Brokers before Kafka 4.0."""

    def list_groups(self, types_filter: list[str]) -> list[dict[str, Any]]:
        raise IncompatibleBrokerVersion(types_filter)


def test_each_share_group_is_asked_for_its_isolation() -> None:
    assert isolation_of_share_groups(Brokers()) == {"hidden": "", "mails": "read_uncommitted"}


def test_brokers_without_share_groups_have_none() -> None:
    assert isolation_of_share_groups(OldBrokers()) == {}
