"""Creates missing topics, and compares existing ones with their plan.

It never changes an existing topic. A difference may be on purpose, and a smaller retention or
another number of partitions can't be undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import UnknownTopicOrPartitionError

from checkback.deploy.admin import admin_client
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, UsageError
from checkback.protocol.topics import TopicPlan, is_kafka_topic_name, plan_topics
from checkback.sinks.kafka.cluster.kafka_python_admin import Admin

TOPIC_ALREADY_EXISTS: Final = 36
"""Kafka's error code if another process created the topic between our check and our request."""
UNKNOWN_TOPIC: Final = 3
NOT_CONTROLLER: Final = 41
PASSING: Final = frozenset({7, 13, NOT_CONTROLLER})
"""REQUEST_TIMED_OUT, NETWORK_EXCEPTION: while another controller is elected."""
RETRY_S: Final = 20.0
PAUSE_S: Final = 0.2


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
        created = create_missing(admin, [plan for plan in plans if plan.name not in existing])
        found = find_all(admin, [plan.name for plan in plans])
    return [
        TopicReport(plan.name, plan.name in created, tuple(compare(plan, found[plan.name])))
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
    """Return the plans to compare topics with; a value that the user did not set stays open."""
    return [_tolerant(plan, settings) for plan in plans_for(settings)]


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


def find_all(
    admin: Admin, names: Sequence[str], pause: Callable[[float], object] = time.sleep
) -> dict[str, FoundTopic]:
    """Return topics that are there; the broker that is asked may not know a new one yet.

    Raises:
        BrokerError: it does not hear of one in time.
    """
    until_s = time.monotonic() + RETRY_S
    while True:
        found: dict[str, FoundTopic] = {}
        with suppress(UnknownTopicOrPartitionError):
            found = find_topics(admin, names)
        missing = sorted({*names} - found.keys())
        if not missing:
            return found
        if time.monotonic() >= until_s:
            raise BrokerError(
                f"The brokers do not know {missing[0]} yet, though it was created.",
                remedy="Check that all brokers are up, and run this again.",
                topic=missing[0],
            )
        pause(PAUSE_S)


def _found(
    partitions: Sequence[Mapping[str, Any]], configs: Mapping[str, Mapping[str, Any]]
) -> FoundTopic:
    replicas = min((len(one["replica_nodes"]) for one in partitions), default=0)
    return FoundTopic(
        len(partitions), replicas, {key: str(one["value"]) for key, one in configs.items()}
    )


def create_missing(
    admin: Admin, plans: Iterable[TopicPlan], pause: Callable[[float], object] = time.sleep
) -> set[str]:
    """Create topics that are missing; return those that this call created."""
    left = {
        plan.name: {
            "num_partitions": -1 if plan.partitions is None else plan.partitions,
            "replication_factor": plan.replication_factor,
            "configs": dict(plan.configs),
        }
        for plan in plans
    }
    names, created, until_s = list(left), set[str](), time.monotonic() + RETRY_S
    while left:
        for one in _answers(admin, left):
            if one["error_code"] in PASSING and time.monotonic() < until_s:
                continue
            if one["error_code"] not in (0, TOPIC_ALREADY_EXISTS):
                raise _refused(one)
            del left[one["name"]]
            if one["error_code"] == 0:
                created.add(one["name"])
        if left:
            pause(PAUSE_S)
    if names:
        admin.wait_for_topics(names)
    return created


def _answers(admin: Admin, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        answers: list[dict[str, Any]] = admin.create_topics(dict(wanted), raise_errors=False)[
            "topics"
        ]
    except RuntimeError:  # kafka-python's, where no broker that it asked was the controller
        said = {"error_code": NOT_CONTROLLER, "error_message": "no broker is the controller"}
        return [{"name": name, **said} for name in wanted]
    return answers


def _refused(answer: Mapping[str, Any]) -> BrokerError:
    passes = answer["error_code"] in PASSING
    return BrokerError(
        f"Kafka refused to create the topic {answer['name']}: {answer['error_message']}",
        remedy="Check that all brokers are up, and run this again."
        if passes
        else "Change the named setting, or ask for the right to create topics.",
        topic=answer["name"],
        error_code=answer["error_code"],
    )


def _tolerant(plan: TopicPlan, settings: Settings) -> TopicPlan:
    """Return the plan, without the number of state partitions unless the user set it.

    A checkpoint keeps its number, which may differ from the number of this machine's cores.
    """
    if plan.name == settings.topics.settled and settings.state_partitions is None:
        return replace(plan, partitions=None)
    return plan
