"""What the brokers are asked about topics, and how often."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.client.message import Message
from checkback.client.topic_facts import TopicFacts
from checkback.protocol.errors import InvalidMessageError, NotFoundError

MESSAGE = Message("t", b"x")


class Brokers:
    """An admin client of brokers that have one topic, and count the questions."""

    def __init__(self, error: int | None = None, *, reachable: bool = True) -> None:
        self.error = error
        self.reachable = reachable
        self.asked: list[str] = []

    def list_topics(self, topic: str, _timeout_s: float) -> Any:
        self.asked.append(topic)
        if not self.reachable:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        error = None if self.error is None else KafkaError(self.error)
        partitions = {1: SimpleNamespace(leader=-1), 0: SimpleNamespace(leader=7)}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=partitions)})

    def describe_configs(self, asked: list[Any], **_: Any) -> dict[Any, Any]:
        answer: Future[Any] = Future()
        answer.set_result({"max.message.bytes": SimpleNamespace(value="1000")})
        return {asked[0]: answer}


def facts_of(brokers: Brokers) -> TopicFacts:
    admin: Any = brokers
    return TopicFacts(lambda: admin, 0.01)


def test_leaders_are_known_and_partitions_without_one_come_not_into_turn() -> None:
    topic = facts_of(Brokers()).topic("t")
    assert (dict(topic.leaders), topic.led) == ({0: 7, 1: None}, (0,))


def test_a_limit_is_asked_for_once() -> None:
    brokers = Brokers()
    facts = facts_of(brokers)
    assert not facts.knows("t")
    for _ in range(3):
        facts.check("t", MESSAGE, 1_000)
    with pytest.raises(InvalidMessageError, match="at most 1000"):
        facts.check("t", MESSAGE, 1_001)
    assert facts.knows("t")
    assert brokers.asked == ["t"]


def test_a_topic_that_is_not_there_is_asked_for_each_time() -> None:
    brokers = Brokers(KafkaError.UNKNOWN_TOPIC_OR_PART)
    facts = facts_of(brokers)
    for _ in range(2):
        with pytest.raises(NotFoundError, match="t can't be seen"):
            facts.check("t", MESSAGE, 10)
    brokers.error = None
    facts.check("t", MESSAGE, 10)


@pytest.mark.parametrize(
    "brokers", [Brokers(KafkaError.TOPIC_AUTHORIZATION_FAILED), Brokers(reachable=False)]
)
def test_a_topic_that_can_not_be_asked_about_has_no_limit_and_is_let_be(brokers: Brokers) -> None:
    facts = facts_of(brokers)
    for _ in range(3):
        facts.check("t", MESSAGE, 10**9)
    assert brokers.asked == ["t"]
