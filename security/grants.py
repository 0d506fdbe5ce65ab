"""The least rights in Kafka that a principal needs, as ``kafka-acls`` commands.

Kafka's own ACLs keep strangers from the topics. They can't tell one producer group from another on
a topic that both write to; the signatures do that.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import CHECK_TOPIC_PREFIX, TopicNames, relay_group

READ: Final = "Read"
WRITE: Final = "Write"
CREATE: Final = "Create"
DESCRIBE: Final = "Describe"
DESCRIBE_CONFIGS: Final = "DescribeConfigs"
_SERVERS_WANTED: Final = "$BOOTSTRAP_SERVERS"


class Resource(Enum):
    """What a right is on, by the option of ``kafka-acls``."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights on one resource. Read and Write include Describe.

    Args:
        name: its name, or how the names begin.
        is_prefix: whether it is for all names that begin so.
        is_optional: whether everything works without it, and something is seen later or not at all.
    """

    resource: Resource
    name: str
    operations: tuple[str, ...]
    purpose: str
    is_prefix: bool = False
    is_optional: bool = False


def producer_grants(names: TopicNames, group: str, real_topics: Sequence[str] = ()) -> list[Grant]:
    """Return what a producer group needs. On the real topics it needs nothing."""
    topic = Resource.TOPIC
    limits = "refuse a message that is too large at once, not after its commit"
    return [
        Grant(topic, names.half, (WRITE,), "send half messages"),
        Grant(topic, names.op, (WRITE,), "say commit or rollback"),
        Grant(topic, names.check(group), (READ,), "receive check requests"),
        Grant(
            topic, names.check(group), (CREATE,), "make the group's check topic at its first start"
        ),
        Grant(
            Resource.GROUP, names.check(group), (READ,),
            "share the check requests among its processes",
        ),
        Grant(topic, names.half, (DESCRIBE_CONFIGS,), limits, is_optional=True),
        Grant(
            topic, names.status, (READ,), "hear that new transactions are refused", is_optional=True
        ),
        *(
            Grant(topic, one, (DESCRIBE, DESCRIBE_CONFIGS), limits, is_optional=True)
            for one in real_topics
        ),
    ]  # fmt: skip


def _check_names(names: TopicNames, groups: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the names of check topics, which their consumer groups have too.

    With each stands whether all names that begin so are meant.

    Args:
        groups: the producer groups; none: all of them.
    """
    named = [(names.check(group), False) for group in groups]
    return named or [(names.prefix + CHECK_TOPIC_PREFIX, True)]


def pipeline_grants(
    names: TopicNames,
    application_id: str,
    real_topics: Sequence[str],
    groups: Sequence[str] = (),
) -> list[Grant]:
    """Return what the pipeline needs; without groups, for all producer groups."""
    topic, group_kind = Resource.TOPIC, Resource.GROUP
    return [
        Grant(topic, names.half, (READ,), "read half messages"),
        Grant(topic, names.op, (READ,), "read ops"),
        Grant(topic, names.feedback, (READ, WRITE), "tell itself of undelivered checks and time"),
        Grant(topic, names.settled, (READ, WRITE), "keep marks, and the markers of its batches"),
        Grant(topic, names.discarded, (WRITE,), "write what was given up"),
        Grant(topic, names.refused, (WRITE,), "write what was refused"),
        *(Grant(topic, one, (WRITE,), "deliver final messages") for one in real_topics),
        *(
            Grant(topic, name, (WRITE,), "ask producer groups", is_prefix=is_prefix)
            for name, is_prefix in _check_names(names, groups)
        ),
        Grant(
            Resource.TRANSACTIONAL_ID, f"{application_id}-", (WRITE,), "write each batch once",
            is_prefix=True,
        ),
        Grant(
            group_kind, f"{application_id}-marker-", (READ,), "know which batch is next",
            is_prefix=True,
        ),
        *_optional_pipeline_grants(names, application_id, real_topics, groups),
    ]  # fmt: skip


def relayed_pipeline_grants(names: TopicNames, application_id: str) -> list[Grant]:
    """Return what the pipeline needs besides, where relay is set."""
    return [
        Grant(
            Resource.TOPIC, names.decided, (READ, WRITE),
            "read what a relay made of ops, and say who takes them",
        ),
        Grant(
            Resource.TOPIC, names.decided, (DESCRIBE_CONFIGS,), "see wrong settings",
            is_optional=True,
        ),
        Grant(
            Resource.GROUP, relay_group(application_id), (READ,), "take the ops back from relays"
        ),
    ]  # fmt: skip


def relayed_operator_grants(names: TopicNames, _application_id: str) -> list[Grant]:
    """Return what operators' commands and the console need besides, where relay is set."""
    why = "show how much of the decided topic is not read"
    return [Grant(Resource.TOPIC, names.decided, (READ,), why, is_optional=True)]


def relay_grants(
    names: TopicNames,
    application_id: str,
    real_topics: Sequence[str],
    groups: Sequence[str] = (),  # noqa: ARG001 - as of the others
) -> list[Grant]:
    """Return what `checkback relay` needs."""
    topic = Resource.TOPIC
    return [
        Grant(topic, names.half, (READ,), "read half messages"),
        Grant(topic, names.op, (READ,), "read ops"),
        Grant(topic, names.decided, (READ, WRITE), "say what became of each op"),
        *(Grant(topic, one, (WRITE,), "deliver final messages") for one in real_topics),
        Grant(
            Resource.TRANSACTIONAL_ID, f"{application_id}-relay-", (WRITE,),
            "end each transaction once", is_prefix=True,
        ),
        Grant(
            Resource.GROUP, relay_group(application_id), (READ,),
            "share the partitions with other relays, and keep the position",
        ),
        *(
            Grant(topic, one, (DESCRIBE_CONFIGS,), "see a topic's limits", is_optional=True)
            for one in real_topics
        ),
    ]  # fmt: skip


def _optional_pipeline_grants(
    names: TopicNames, application_id: str, real_topics: Sequence[str], groups: Sequence[str]
) -> list[Grant]:
    topics = (
        *names.read, names.settled, names.discarded, names.refused,
        *real_topics,
    )  # fmt: skip
    return [
        Grant(
            Resource.TOPIC, names.status, (WRITE,), "tell producers what holds", is_optional=True
        ),
        *(
            Grant(
                Resource.TOPIC, one, (DESCRIBE_CONFIGS,), "see a topic's limits and wrong settings",
                is_optional=True,
            )
            for one in topics
        ),
        Grant(
            Resource.GROUP, application_id, (READ,), "show its position to lag tools",
            is_optional=True,
        ),
        *(
            Grant(
                Resource.GROUP, name, (DESCRIBE,), "say which groups have no live member",
                is_prefix=is_prefix, is_optional=True,
            )
            for name, is_prefix in _check_names(names, groups)
        ),
    ]  # fmt: skip


def operator_grants(
    names: TopicNames,
    application_id: str,
    real_topics: Sequence[str],
    groups: Sequence[str] = (),
) -> list[Grant]:
    """Return what the operators' commands and the console need.

    The tools for checkpoints write as the pipeline does, and need its rights as well.
    """
    topic = Resource.TOPIC
    seen = (*names.read, names.settled, names.refused, names.discarded)
    return [
        *(Grant(topic, one, (READ,), "tell what became of transactions") for one in seen),
        *(
            Grant(topic, name, (READ,), "show check requests", is_prefix=is_prefix)
            for name, is_prefix in _check_names(names, groups)
        ),
        Grant(topic, names.op, (WRITE,), "decide a transaction by hand"),
        *(
            Grant(topic, one, (WRITE,), "resume a discarded half")
            for one in (names.half, names.discarded)
        ),
        Grant(topic, names.refused, (WRITE,), "note that a refused final was sent again"),
        *(
            Grant(topic, one, (READ, WRITE), "show final messages, and send refused ones again")
            for one in real_topics
        ),
        *(
            Grant(
                Resource.TRANSACTIONAL_ID, f"{application_id}-{command}", (WRITE,),
                f"{command} once, one operator at a time",
            )
            for command in ("resume", "resend")
        ),
        *_optional_operator_grants(names, application_id, groups),
    ]  # fmt: skip


def _optional_operator_grants(
    names: TopicNames, application_id: str, groups: Sequence[str]
) -> list[Grant]:
    return [
        Grant(
            Resource.GROUP, application_id, (DESCRIBE,), "show how far the pipeline has read",
            is_optional=True,
        ),
        *(
            Grant(
                Resource.GROUP, name, (DESCRIBE,), "show live members",
                is_prefix=is_prefix, is_optional=True,
            )
            for name, is_prefix in _check_names(names, groups)
        ),
    ]  # fmt: skip


def kafka_acls_command(
    grant: Grant, principal: str, bootstrap_servers: str, command_config: str = ""
) -> str:
    """Return the command that gives the rights.

    Raises:
        ConfigurationError: the principal has no type.
    """
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ConfigurationError(
            f"{principal!r} is no Kafka principal.", remedy="Write it like User:orders."
        )
    words = ["--add", "--allow-principal", principal]
    for operation in grant.operations:
        words += ["--operation", operation]
    words += [f"--{grant.resource.value}", grant.name]
    if grant.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    if command_config:
        words = ["--command-config", command_config, *words]
    # In double quotes, or the shell would not put the variable's value there.
    servers = shlex.quote(bootstrap_servers) if bootstrap_servers else f'"{_SERVERS_WANTED}"'
    return f"kafka-acls --bootstrap-server {servers} {shlex.join(words)}"
