"""The least rights in Kafka that a principal needs, as ``kafka-acls`` commands.

Kafka's own ACLs keep strangers from the topics. They can't tell one producer group from another on
a topic that both write to; the signatures do that.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final

from checkback.protocol.configuration import Settings
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


_topic: Final = partial(Grant, Resource.TOPIC)
_group: Final = partial(Grant, Resource.GROUP)
_transactions: Final = partial(Grant, Resource.TRANSACTIONAL_ID)


def producer_grants(names: TopicNames, group: str, real_topics: Sequence[str] = ()) -> list[Grant]:
    """Return what a producer group needs. On the real topics it needs nothing."""
    check = names.check(group)
    limits = "refuse a message that is too large at once, not after its commit"
    needed = [
        _topic(names.half, (WRITE,), "send half messages"),
        _topic(names.op, (WRITE,), "say commit or rollback"),
        _topic(check, (READ,), "receive check requests"),
        _topic(check, (CREATE,), "make the group's check topic at its first start"),
        _group(check, (READ,), "share the check requests among its processes"),
    ]
    optional = [
        _topic(names.half, (DESCRIBE_CONFIGS,), limits),
        _topic(names.status, (READ,), "hear that new transactions are refused"),
        *(_topic(one, (DESCRIBE, DESCRIBE_CONFIGS), limits) for one in real_topics),
    ]
    return needed + _optional(optional)


def _optional(grants: Iterable[Grant]) -> list[Grant]:
    return [replace(grant, is_optional=True) for grant in grants]


def _of_groups(
    names: TopicNames, groups: Sequence[str], kind: Resource, operation: str, purpose: str
) -> list[Grant]:
    """Return a right on the check topics of groups, or on the consumer groups of the same names.

    Without groups it is for all of them.
    """
    checks = [names.check(group) for group in groups] or [names.prefix + CHECK_TOPIC_PREFIX]
    return [Grant(kind, name, (operation,), purpose, is_prefix=not groups) for name in checks]


def pipeline_grants(
    settings: Settings, real_topics: Sequence[str], groups: Sequence[str] = ()
) -> list[Grant]:
    """Return what the pipeline needs; without groups, for all producer groups."""
    names, application_id = settings.topics, settings.application_id
    limited = (*names.read, names.settled, names.discarded, names.refused, *real_topics)
    marker = f"{application_id}-marker-"
    needed = [
        _topic(names.half, (READ,), "read half messages"),
        _topic(names.op, (READ,), "read ops"),
        _topic(names.feedback, (READ, WRITE), "tell itself of undelivered checks and time"),
        _topic(names.settled, (READ, WRITE), "keep marks, and the markers of its batches"),
        _topic(names.discarded, (WRITE,), "write what was given up"),
        _topic(names.refused, (WRITE,), "write what was refused"),
        *(_topic(one, (WRITE,), "deliver final messages") for one in real_topics),
        *_of_groups(names, groups, Resource.TOPIC, WRITE, "ask producer groups"),
        _transactions(f"{application_id}-", (WRITE,), "write each batch once", is_prefix=True),
        _group(marker, (READ,), "know which batch is next", is_prefix=True),
    ]
    silent = "say which groups have no live member"
    optional = [
        _topic(names.status, (WRITE,), "tell producers what holds"),
        *(
            _topic(one, (DESCRIBE_CONFIGS,), "see a topic's limits and wrong settings")
            for one in limited
        ),
        _group(application_id, (READ,), "show its position to lag tools and relays"),
        *_of_groups(names, groups, Resource.GROUP, DESCRIBE, silent),
    ]
    if settings.relay:
        read = "read what a relay made of ops, and say who takes them"
        needed += [
            _topic(names.decided, (READ, WRITE), read),
            _group(relay_group(application_id), (READ,), "take the ops back from relays"),
        ]
        optional.append(_topic(names.decided, (DESCRIBE_CONFIGS,), "see wrong settings"))
    return needed + _optional(optional)


def relay_grants(
    settings: Settings,
    real_topics: Sequence[str],
    groups: Sequence[str] = (),  # noqa: ARG001 - as of the others
) -> list[Grant]:
    """Return what `checkback relay` needs."""
    names, relays = settings.topics, relay_group(settings.application_id)
    ids = f"{settings.application_id}-relay-"
    shares = "share the partitions with other relays, and keep the position"
    return [
        _topic(names.half, (READ,), "read half messages"),
        _topic(names.op, (READ,), "read ops"),
        _topic(names.decided, (READ, WRITE), "say what became of each op"),
        *(_topic(one, (WRITE,), "deliver final messages") for one in real_topics),
        _transactions(ids, (WRITE,), "end each transaction once", is_prefix=True),
        _group(relays, (READ,), shares),
        _group(settings.application_id, (DESCRIBE,), "know how far the pipeline has come"),
        *_optional(_topic(one, (DESCRIBE_CONFIGS,), "see a topic's limits") for one in real_topics),
    ]


def operator_grants(
    settings: Settings, real_topics: Sequence[str], groups: Sequence[str] = ()
) -> list[Grant]:
    """Return what the operators' commands and the console need.

    The tools for checkpoints write as the pipeline does, and need its rights as well.
    """
    names, application_id = settings.topics, settings.application_id
    seen = (*names.read, names.settled, names.refused, names.discarded)
    finals = "show final messages, and send refused ones again"
    needed = [
        *(_topic(one, (READ,), "tell what became of transactions") for one in seen),
        *_of_groups(names, groups, Resource.TOPIC, READ, "show check requests"),
        _topic(names.op, (WRITE,), "decide a transaction by hand"),
        _topic(names.half, (WRITE,), "resume a discarded half"),
        _topic(names.discarded, (WRITE,), "resume a discarded half"),
        _topic(names.refused, (WRITE,), "note that a refused final was sent again"),
        *(_topic(one, (READ, WRITE), finals) for one in real_topics),
        *(
            _transactions(
                f"{application_id}-{does}", (WRITE,), f"{does} once, one operator at a time"
            )
            for does in ("resume", "resend")
        ),
    ]
    optional = [
        _group(application_id, (DESCRIBE,), "show how far the pipeline has read"),
        *_of_groups(names, groups, Resource.GROUP, DESCRIBE, "show live members"),
    ]
    if settings.relay:
        why = "show how much of the decided topic is not read"
        optional.append(_topic(names.decided, (READ,), why))
    return needed + _optional(optional)


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
