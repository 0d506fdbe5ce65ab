"""Which topics no message may be sent to."""

from __future__ import annotations

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError
from checkback.protocol.topics import SYSTEM_TOPICS, TopicNames, is_kafka_topic_name

NAMES = TopicNames("p-")


@pytest.mark.parametrize("prefix", ["", "p-"])
@pytest.mark.parametrize(
    "name", [*sorted(SYSTEM_TOPICS), "RMQ_SYS_TRANS_CHECK_orders", "rmq_sys_x"]
)
def test_a_system_topic_is_one_with_the_prefix_and_without_it(prefix: str, name: str) -> None:
    assert NAMES.is_system(prefix + name)


@pytest.mark.parametrize("topic", ["__any", "p-__any"])
def test_what_begins_with_two_underscores_belongs_to_kafka(topic: str) -> None:
    assert NAMES.is_system(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "orders", "p-orders", "TBW102-orders", "my__orders", "RMQ_orders", "orders-BenchmarkTest",
        "shop_SCHEDULE_TOPIC_XXXX", "p-orders-TBW102", "shop-RMQ_SYS_TRACE_TOPIC",
    ],
)  # fmt: skip
def test_a_topic_of_a_user_is_none(topic: str) -> None:
    assert not NAMES.is_system(topic)


def test_a_prefix_that_makes_any_of_our_names_too_long_is_refused() -> None:
    names = TopicNames("p" * 220)
    ours = (*names.read, names.discarded, names.refused, names.settled, names.status)

    assert all(is_kafka_topic_name(name) for name in ours)
    with pytest.raises(ConfigurationError, match="topic_prefix"):
        TopicNames("p" * 221)


def test_the_topic_of_the_rules_is_one() -> None:
    names = Settings(bootstrap_servers="b:1", acl_file="kafka:acl-rules").topics

    assert names.is_system("acl-rules")
    assert not names.is_system("acl-rules-2")
    assert not Settings(bootstrap_servers="b:1", acl_file="acl-rules").topics.is_system("acl-rules")
