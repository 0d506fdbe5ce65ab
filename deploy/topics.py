"""Creates missing topics, and compares existing ones with their plan.

It never changes an existing topic. A difference may be on purpose, and a smaller retention or
another number of partitions can't be undone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.admin import ConfigResource, ConfigResourceType

from checkback.client.kafka import own_topics
from checkback.deploy.admin import admin_client, connected_admin
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import UsageError
from checkback.protocol.topics import TopicPlan, is_kafka_topic_name, plan_topics
from checkback.sinks.kafka.cluster.kafka_python_admin import Admin

UNKNOWN_TOPIC: Final = 3
"""Kafka's error code of a topic that does not exist."""
CREATE_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """One difference between a topic and its plan.

    Args:
        name: ``partitions``, ``replication_factor`` or one of Kafka's topic settings.
    """

    name: str
    wanted: str
    found: str


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The report about one topic."""

    name: str
    created: bool
    differences: tuple[TopicDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as it is on the broker."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def create_topics(settings: Settings, real_topics: Sequence[str] = ()) -> list[TopicReport]:
    """Create the topics that are missing, and say where the others differ from their plan.

    Raises:
        ConfigurationError: bootstrap_servers or a security setting is not as needed.
        UsageError: no message may be sent to one of the real topics.
        BrokerError: Kafka can't be reached, or refuses what was asked.
    """
    open_plans = [_real_plan(name, settings) for name in real_topics]
    plans = [*plans_for(settings), *open_plans]
    with admin_client(settings.bootstrap_servers, settings.kafka) as admin:
        existing = find_topics(admin, [plan.name for plan in plans])
    created = create_missing(settings, [plan for plan in plans if plan.name not in existing])
    return [
        TopicReport(
            plan.name,
            plan.name in created,
            # One that is new is as planned.
            tuple(compare(plan, existing[plan.name])) if plan.name in existing else (),
        )
        for plan in [*comparable_plans(settings), *open_plans]
    ]


def _real_plan(name: str, settings: Settings) -> TopicPlan:
    if settings.topics.is_system(name) or not is_kafka_topic_name(name):
        raise UsageError(
            f"{name!r} can't be a real topic.",
            remedy="Name a topic of an application: letters, digits, '.', '_' and '-'.",
            topic=name,
        )
    return TopicPlan(name, None, replication_factor=settings.replication_factor)


def plans_for(settings: Settings) -> list[TopicPlan]:
    """Return the plan of each topic under these settings, on this machine."""
    return plan_topics(settings, settings.state_partitions_on(os.cpu_count() or 1))


def comparable_plans(settings: Settings) -> list[TopicPlan]:
    """Return the plans to compare topics with.

    The number of state partitions stays open unless the user set it: a checkpoint keeps its number,
    which may differ from the number of this machine's cores.
    """
    is_open = settings.state_partitions is None
    return [
        replace(plan, partitions=None) if is_open and plan.name == settings.topics.settled else plan
        for plan in plans_for(settings)
    ]


def compare(plan: TopicPlan, found: FoundTopic) -> Iterator[TopicDifference]:
    """Yield a topic's differences from its plan; open values of the plan never differ."""
    if plan.partitions is not None and plan.partitions != found.partitions:
        yield TopicDifference("partitions", str(plan.partitions), str(found.partitions))
    if plan.replication_factor > 0 and plan.replication_factor != found.replication_factor:
        wanted = str(plan.replication_factor)
        yield TopicDifference("replication_factor", wanted, str(found.replication_factor))
    for key, wanted in plan.configs.items():
        if found.configs.get(key, "") != wanted:
            yield TopicDifference(key, wanted, found.configs.get(key, ""))


def find_topics(admin: Admin, names: Sequence[str]) -> dict[str, FoundTopic]:
    """Return the topics that exist, as the broker describes them."""
    described = {one["name"]: one for one in admin.describe_topics(list(names))}
    existing = [name for name in names if described[name]["error_code"] != UNKNOWN_TOPIC]
    if not existing:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in existing]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    return {name: _found(described[name]["partitions"], configs[name]) for name in existing}


def _found(
    partitions: Sequence[Mapping[str, Any]], configs: Mapping[str, Mapping[str, Any]]
) -> FoundTopic:
    replicas = min((len(one["replica_nodes"]) for one in partitions), default=0)
    return FoundTopic(
        len(partitions), replicas, {key: str(one["value"]) for key, one in configs.items()}
    )


def create_missing(settings: Settings, plans: Sequence[TopicPlan]) -> set[str]:
    """Create topics unless they exist; return the names of those that this call created.

    Raises:
        ConfigurationError: bootstrap_servers or a security setting is not as needed.
        BrokerError: Kafka can't be reached, or refuses what was asked.
    """
    if not plans:
        return set()
    servers = settings.bootstrap_servers
    admin = connected_admin(servers, settings.kafka)
    return own_topics.create_missing(admin, plans, servers, CREATE_TIMEOUT_S)
