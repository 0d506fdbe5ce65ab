"""Looks at Checkback's topics when a producer starts, and makes its group's check topic."""

from __future__ import annotations

import logging
from typing import Any

from kafka.errors import KafkaError, TopicAlreadyExistsError

from checkback.client.kafka_channel import Channel
from checkback.protocol.errors import BrokerError
from checkback.protocol.topics import TopicNames, TopicPlan

_log = logging.getLogger(__name__)


def require_half_and_op(channel: Channel, topics: TopicNames) -> None:
    """See to it that both topics are there, with as many partitions each.

    Args:
        channel: its Kafka producer learns both topics on the way.
        topics: their names.

    Raises:
        BrokerError: one is missing, may not be seen, or they have not as many partitions.
    """
    half, op = (_partitions(channel, topic) for topic in (topics.half, topics.op))
    if half != op:
        raise BrokerError(
            f"{topics.half} has {half} partitions and {topics.op} has {op}.",
            remedy="They must have as many: run `checkback topics create` and see what differs.",
            half_partitions=half,
            op_partitions=op,
        )


def _partitions(channel: Channel, topic: str) -> int:
    try:
        return len(channel.leaders(topic))
    except BrokerError as error:
        raise BrokerError(
            error.message,
            remedy="Run `checkback topics create`, and check topic_prefix and access rights.",
            topic=topic,
        ) from error


def create_topic(admin: Any, plan: TopicPlan) -> None:
    """Create a topic unless it exists. Where it does, no right to create one is needed.

    Args:
        admin: an open Kafka admin client.
        plan: what the topic has to be.

    Raises:
        BrokerError: Kafka refused.
    """
    options = {
        "num_partitions": plan.partitions or -1,
        "replication_factor": plan.replication_factor,
        "configs": dict(plan.configs),
    }
    if _exists(admin, plan.name):
        return
    try:
        admin.create_topics({plan.name: options}, wait_for_metadata=True)
    except TopicAlreadyExistsError:
        return
    except KafkaError as error:
        raise BrokerError(
            f"The topic {plan.name} can't be created: {type(error).__name__}: {error}",
            remedy="Create it by hand, or allow the producer to.",
            topic=plan.name,
        ) from error
    _log.info("Created the check topic %s", plan.name)


def _exists(admin: Any, topic: str) -> bool:
    try:
        (described,) = admin.describe_topics([topic])
    except KafkaError:
        return False  # whatever it was, the attempt to create it says more
    return bool(described["error_code"] == 0)
