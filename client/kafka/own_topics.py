"""Looks at Checkback's topics when a producer starts, and creates topics that are missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from checkback.client.kafka.errors import cause_of
from checkback.client.kafka.topics import TopicFacts
from checkback.protocol.errors import BrokerError, NotFoundError
from checkback.protocol.topics import HALF_TOPIC, TopicNames, TopicPlan

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_log = logging.getLogger(__name__)

SEEN_LOOK_S: Final = 0.05
LEAST_S: Final = 0.1
AGAIN_S: Final = 0.2
PASSING: Final = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,
    }
)
"""What brokers answer while another controller is elected."""
BYTES_MAX: Final = "max.message.bytes"
PREFIXES_LOOK_S: Final = 5.0
PREFIXES_TOLD: Final = 5


def require_half_and_op(facts: TopicFacts, topics: TopicNames) -> None:
    """Require that both topics exist and have the same number of partitions.

    Args:
        facts: learns both topics on the way.

    Raises:
        BrokerError: one is missing or may not be described, or their numbers of partitions differ.
    """
    half, op = (_partitions(facts, topic) for topic in (topics.half, topics.op))
    if half != op:
        raise BrokerError(
            f"{topics.half} has {half} partitions and {topics.op} has {op}.",
            remedy="Both need the same number: run `checkback topics create` and see what differs.",
            half_partitions=half,
            op_partitions=op,
        )


def _partitions(facts: TopicFacts, topic: str) -> int:
    try:
        return len(facts.topic(topic).leaders)
    except NotFoundError as error:
        raise BrokerError(
            error.message, remedy=_remedy_for_missing_topic(facts), topic=topic
        ) from error
    except BrokerError as error:
        raise BrokerError(
            error.message,
            remedy="Check bootstrap_servers, and the rights on the topic.",
            topic=topic,
        ) from error


def _remedy_for_missing_topic(facts: TopicFacts) -> str:
    """Return the remedy for a missing topic; usually topic_prefix is wrong."""
    try:
        names = facts.admin.list_topics(timeout=PREFIXES_LOOK_S).topics
    except KafkaException:
        names = {}
    found = sorted(name.removesuffix(HALF_TOPIC) for name in names if name.endswith(HALF_TOPIC))
    if not found:
        return "Run `checkback topics create`, and check topic_prefix."
    listed = ", ".join(repr(one) for one in found[:PREFIXES_TOLD])
    more = " and others" if len(found) > PREFIXES_TOLD else ""
    return (
        f"Check topic_prefix: there are topics of the prefix {listed}{more}. "
        "For a new one run `checkback topics create`."
    )


def create_check_topic(
    facts: TopicFacts, plan: TopicPlan, bootstrap_servers: str, timeout_s: float
) -> None:
    """Create a group's check topic unless it exists.

    Log a warning where one that exists takes smaller records than planned.

    Args:
        facts: asks about the topic, and has an admin client.

    Raises:
        BrokerError: Kafka can't be reached, or refused.
    """
    if create_missing(facts.admin, [plan], bootstrap_servers, timeout_s):
        _log.info("Created the check topic %s", plan.name)
    else:
        _compare_limit(plan, facts.ask_limit(plan.name))


def create_missing(
    admin: AdminClient, plans: Iterable[TopicPlan], bootstrap_servers: str, timeout_s: float
) -> set[str]:
    """Create topics unless they exist; only creating needs a right to create.

    Args:
        timeout_s: how long to try, and to wait until the brokers know new topics.

    Returns:
        The names of the topics that this call created.

    Raises:
        BrokerError: Kafka can't be reached, or refused.
    """
    from confluent_kafka.admin import NewTopic

    deadline_s = time.monotonic() + timeout_s
    left = {
        plan.name: NewTopic(
            plan.name,
            num_partitions=plan.partitions or -1,
            replication_factor=plan.replication_factor,
            config=dict(plan.configs),
        )
        for plan in plans
        if not topic_exists(admin, plan.name, bootstrap_servers, timeout_s)
    }
    created: set[str] = set()
    while left:
        left_s = max(LEAST_S, deadline_s - time.monotonic())
        for name, answer in admin.create_topics([*left.values()], request_timeout=left_s).items():
            try:
                answer.result(left_s)
                created.add(name)
            except (KafkaException, TimeoutError) as error:
                problem = error.args[0] if error.args else None
                code = problem.code() if isinstance(problem, KafkaError) else KafkaError._TIMED_OUT
                if code in PASSING and time.monotonic() + AGAIN_S < deadline_s:
                    continue
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise _not_created(name, problem, code) from error
            del left[name]
        if left:
            time.sleep(AGAIN_S)
            with suppress(KafkaException):  # librdkafka goes on asking the controller that it knows
                admin.list_topics(timeout=left_s)
    for name in created:
        while (
            not topic_exists(admin, name, bootstrap_servers, timeout_s)
            and time.monotonic() < deadline_s
        ):
            time.sleep(SEEN_LOOK_S)
    return created


def _compare_limit(plan: TopicPlan, limit: int | None) -> None:
    wanted = plan.configs[BYTES_MAX]
    if limit is not None and limit < int(wanted):
        _log.warning(
            "The check topic %s takes records of %d bytes (%s), those about the largest messages "
            "of this producer need up to %s: such messages are never asked about, and wait until "
            "half_retention_ms is over. Set it to %s, or lower max_message_size.",
            plan.name, limit, BYTES_MAX, wanted, wanted,
        )  # fmt: skip


def _not_created(topic: str, problem: object, code: int) -> BrokerError:
    said = problem.str() if isinstance(problem, KafkaError) else "no answer in time"
    passes = code in PASSING or code == KafkaError._TIMED_OUT
    refused = "Change the setting that it names, or ask for the right to create topics."
    return BrokerError(
        f"The topic {topic} can't be created: {said}",
        remedy="Check that all brokers are up, and start again." if passes else refused,
        topic=topic,
    )


def topic_exists(admin: AdminClient, topic: str, bootstrap_servers: str, timeout_s: float) -> bool:
    """Tell whether a topic exists and this user may describe it.

    Raises:
        BrokerError: Kafka can't be reached.
    """
    try:
        found = admin.list_topics(topic, timeout_s).topics[topic]
    except KafkaException as error:
        raise BrokerError(
            f"Kafka at {bootstrap_servers} could not be reached: {cause_of(error).str()}.",
            remedy="Check bootstrap_servers, the network and the security settings.",
            bootstrap_servers=bootstrap_servers,
        ) from error
    return found.error is None
