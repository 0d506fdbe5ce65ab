"""The topics: their names, and how each has to be set up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from checkback.protocol.errors import ConfigurationError

if TYPE_CHECKING:
    from checkback.protocol.configuration import Settings

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DIRECT_OP_TOPIC: Final = "RMQ_SYS_TRANS_DIRECT_OP_TOPIC"
FEEDBACK_TOPIC: Final = "RMQ_SYS_TRANS_FEEDBACK_TOPIC"
RULES_ON_KAFKA: Final = "kafka:"
"""What stands before a topic's name in acl_file."""
CHECK_TOPIC_PREFIX: Final = "RMQ_SYS_TRANS_CHECK_"
DISCARDED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
REFUSED_TOPIC: Final = "RMQ_SYS_TRANS_REFUSED_TOPIC"
SETTLED_TOPIC: Final = "RMQ_SYS_TRANS_SETTLED_TOPIC"
DECIDED_TOPIC: Final = "RMQ_SYS_TRANS_DECIDED_TOPIC"
STATUS_TOPIC: Final = "RMQ_SYS_TRANS_STATUS_TOPIC"

SYSTEM_TOPICS: Final = frozenset(
    {
        HALF_TOPIC, OP_TOPIC, DIRECT_OP_TOPIC, FEEDBACK_TOPIC, DISCARDED_TOPIC, REFUSED_TOPIC,
        SETTLED_TOPIC, DECIDED_TOPIC, STATUS_TOPIC,
        "SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "TBW102", "BenchmarkTest",
        "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC", "__consumer_offsets", "__transaction_state",
    }
)  # fmt: skip
"""No message may be sent to these: RocketMQ's (TopicValidator), Checkback's and Kafka's own."""
SYSTEM_TOPIC_PREFIXES: Final = ("RMQ_SYS_", "rmq_sys_", "__")
"""What the names of further system topics begin with."""

KAFKA_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""What Kafka takes as a topic name (org.apache.kafka.common.internals.Topic), but for . and .. ."""


def relay_group(application_id: str) -> str:
    """Return the consumer group of a deployment's relays."""
    return f"{application_id}-relay"


class _Name:
    """A topic's name, behind the prefix."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, names: TopicNames, _: type[TopicNames]) -> str:
        return names.prefix + self._name


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of Checkback's topics under one prefix.

    Args:
        prefix: put before each name as it is; lets several Checkbacks share a cluster.
        rules: the topic of the rules of access control, with its prefix; empty for none. No final
            may go there: it would replace the rules.
    """

    prefix: str = ""
    rules: str = ""
    half = _Name(HALF_TOPIC)
    """Half messages."""
    op = _Name(OP_TOPIC)
    """Ops, in the partition number of their half."""
    direct_op = _Name(DIRECT_OP_TOPIC)
    """What producers delivered before an upgrade: read to its end once, and written no more."""
    feedback = _Name(FEEDBACK_TOPIC)
    """What the pipeline tells itself: checks that found no topic, and ticks."""
    discarded = _Name(DISCARDED_TOPIC)
    """Half messages that were given up."""
    refused = _Name(REFUSED_TOPIC)
    """Records that could not be taken, with the reason."""
    settled = _Name(SETTLED_TOPIC)
    """Marks of what was decided; its partitions carry the batch marker."""
    decided = _Name(DECIDED_TOPIC)
    """What a relay made of each op, and who takes the ops; there is one where relay is set."""
    status = _Name(STATUS_TOPIC)
    """What the pipeline tells clients; they go on without it."""

    def __post_init__(self) -> None:
        if self.prefix and not is_kafka_topic_name(self.prefix + DIRECT_OP_TOPIC):  # the longest
            raise ConfigurationError(
                f"topic_prefix {self.prefix!r} makes topic names that Kafka does not take.",
                remedy="Use letters, digits, '.', '_' and '-', at most 200 characters.",
                key="topic_prefix",
            )

    @property
    def read(self) -> tuple[str, ...]:
        """The topics that the pipeline reads, half topic first."""
        return self.half, self.op, self.feedback

    @property
    def read_with_relay(self) -> tuple[str, ...]:
        """The topics that the pipeline reads once its checkpoint has known a relay."""
        return *self.read, self.decided

    def check(self, group: str) -> str:
        """Return the topic of a producer group's check requests."""
        return f"{self.prefix}{CHECK_TOPIC_PREFIX}{group}"

    def is_system(self, topic: str) -> bool:
        """Tell whether no user message may go to that topic."""
        if self.rules and topic == self.rules:
            return True
        return is_system_topic(topic, self.prefix)


def is_system_topic(topic: str, prefix: str = "") -> bool:
    """Tell whether a topic is Checkback's, RocketMQ's or Kafka's own, with a prefix or without."""
    return any(
        name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIXES)
        for name in (topic, topic.removeprefix(prefix))
    )


def rules_topic(acl_file: str) -> str:
    """Return the topic that acl_file names, "" where it names a file or nothing."""
    return acl_file.removeprefix(RULES_ON_KAFKA) if acl_file.startswith(RULES_ON_KAFKA) else ""


def is_kafka_topic_name(topic: str) -> bool:
    """Tell whether Kafka takes that name for a topic."""
    return KAFKA_TOPIC_NAME.fullmatch(topic) is not None and topic not in (".", "..")


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What one topic has to be.

    Args:
        partitions: how many; None where any number will do.
        replication_factor: -1 leaves it to the broker.
    """

    name: str
    partitions: int | None
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = -1


DAY_MS: Final = 86_400_000
HEADER_ROOM_BYTES: Final = 65_536
"""What a refused, check or discarded record may be larger than its half: added headers."""


def around_half_bytes(max_message_bytes: int) -> int:
    """Return the bytes that topics take for a half, or an op, with further headers around it."""
    return max_message_bytes + 2 * HEADER_ROOM_BYTES


AHEAD_MS_MAX: Final = 3_600_000
"""How far ahead of the broker's clock a sender's time may be, where somebody makes a topic believe
senders that should not: Spark can't read a record with a time after the year 294,247."""
UNPACKED: Final = {"compression.type": "uncompressed"}
"""Of topics that producers write: so the brokers compare with max.message.bytes what a record
unpacks to. A record of 300 MB of zeros, compressed to 30 kB, ended the job at every start."""
KEPT: Final = {"compression.type": "producer"}
"""Of the same topics with keep_compression."""
_GONE: Final = "records would go that are still needed"
_BY_NUMBER: Final = {"retention.bytes": "records would go by their number, however young they are"}
_BY_SENDERS: Final = {"message.timestamp.type": "ages would follow the clocks of the senders"}
STATUS_CONFIGS: Final = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


def plan_topics(settings: Settings, state_partitions: int) -> list[TopicPlan]:
    """Return the plan of every topic that exists once per Checkback.

    A half is looked up when it becomes final, is asked back or discarded, so the half topic keeps
    it a day longer than it may be pending. Marks outlive halves, or a rebuild would take a settled
    half for a pending one.
    """
    names, partitions = settings.topics, settings.half_partitions
    kept_ms = settings.half_retention_ms + DAY_MS
    half_bytes = settings.max_message_bytes + HEADER_ROOM_BYTES
    around_bytes = around_half_bytes(settings.max_message_bytes)

    def plan(name: str, number: int, retention_ms: int, bytes_max: int) -> TopicPlan:
        is_timed = name in timed or name == names.decided
        configs = _topic_configs(retention_ms, bytes_max, appended_at_broker=is_timed)
        if name in timed:
            configs |= KEPT if settings.keep_compression else UNPACKED
        return TopicPlan(name, number, configs, settings.replication_factor)

    # Ages are by the broker's clock, not by the sender's (RocketMQ #9640).
    timed = {names.half, names.op, names.feedback}
    # A record there is an op with a header more. Its time tells the relay the brokers' clock.
    decided = [plan(names.decided, partitions, kept_ms, around_bytes)] if settings.relay else []
    return [
        plan(names.half, partitions, kept_ms, half_bytes),
        plan(names.op, partitions, kept_ms, half_bytes),
        plan(names.feedback, partitions, kept_ms, around_bytes),
        plan(names.discarded, 1, 30 * DAY_MS, around_bytes),
        plan(names.refused, 1, 30 * DAY_MS, around_bytes),
        plan(names.settled, state_partitions, 2 * kept_ms, half_bytes),
        TopicPlan(names.status, 1, STATUS_CONFIGS, settings.replication_factor),
        *decided,
    ]


def breaking_configs(names: TopicNames, topic: str) -> Mapping[str, str]:
    """Return the settings of a topic that may not differ from its plan, with what would go wrong.

    A start refuses a topic with such a difference, and doctor calls it failed.
    """
    if topic == names.status:  # clients go on without it
        return {}
    if topic in (*names.read, names.decided):
        return {"cleanup.policy": _GONE, **_BY_NUMBER, **_BY_SENDERS}
    if topic == names.settled:
        return {"cleanup.policy": _GONE, **_BY_NUMBER}
    return {"cleanup.policy": "brokers would take no record without a key"}


def _topic_configs(
    retention_ms: int, bytes_max: int, *, appended_at_broker: bool = False
) -> dict[str, str]:
    ahead = {"message.timestamp.after.max.ms": str(AHEAD_MS_MAX)} if appended_at_broker else {}
    return {
        **ahead,
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": "-1",
        "max.message.bytes": str(bytes_max),
        "message.timestamp.type": "LogAppendTime" if appended_at_broker else "CreateTime",
    }


def plan_check_topic(names: TopicNames, group: str, *, max_message_bytes: int) -> TopicPlan:
    """Return the plan of a producer group's check topic.

    A check request is worth nothing once the next one was sent. It is kept for a day, so that
    people can look at it.
    """
    # A producer skips requests by their age, which must be by the broker's clock, too.
    bytes_max = around_half_bytes(max_message_bytes)
    configs = _topic_configs(DAY_MS, bytes_max, appended_at_broker=True)
    return TopicPlan(names.check(group), None, configs, -1)
