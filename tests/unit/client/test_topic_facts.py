"""What the brokers are asked about topics, and how often."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.client.kafka.topics import TopicFacts
from checkback.client.message import Message
from checkback.protocol.errors import InvalidMessageError, NotFoundError
from checkback.testing.waiting import wait_until

MESSAGE = Message("t", b"x")


class Brokers:
    """An admin client of brokers that have one topic, and count the questions."""

    def __init__(self, error: int | None = None, *, reachable: bool = True) -> None:
        self.error = error
        self.reachable = reachable
        self.asked: list[str] = []
        self.gates: dict[str, threading.Event] = {}
        self.settings = {"max.message.bytes": "1000"}

    def list_topics(self, topic: str, _timeout_s: float) -> Any:
        self.asked.append(topic)
        if topic in self.gates:
            self.gates[topic].wait(60)
        if not self.reachable:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        error = None if self.error is None else KafkaError(self.error)
        partitions = {1: SimpleNamespace(leader=-1), 0: SimpleNamespace(leader=7)}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions=partitions)})

    def describe_configs(self, asked: list[Any], **_: Any) -> dict[Any, Any]:
        answer: Future[Any] = Future()
        answer.set_result(
            {name: SimpleNamespace(value=value) for name, value in self.settings.items()}
        )
        return {asked[0]: answer}


def facts_of(brokers: Brokers) -> TopicFacts:
    admin: Any = brokers
    facts = TopicFacts(lambda: admin, 0.01)
    facts.start()
    return facts


def test_leaders_are_known_and_partitions_without_one_come_not_into_turn() -> None:
    topic = facts_of(Brokers()).topic("t")
    assert (dict(topic.leaders), topic.led) == ({0: 7, 1: None}, (0,))


def test_a_limit_is_asked_for_once() -> None:
    brokers = Brokers()
    facts = facts_of(brokers)
    assert not facts.knows("t")
    for _ in range(3):
        facts.require_fits("t", MESSAGE, 1_000)
    with pytest.raises(InvalidMessageError, match="at most 1000"):
        facts.require_fits("t", MESSAGE, 1_001)
    assert facts.knows("t")
    assert brokers.asked == ["t"]


def test_a_topic_that_is_not_there_is_asked_for_each_time() -> None:
    brokers = Brokers(KafkaError.UNKNOWN_TOPIC_OR_PART)
    facts = facts_of(brokers)
    for _ in range(2):
        with pytest.raises(NotFoundError, match="t can't be seen"):
            facts.require_fits("t", MESSAGE, 10)
    brokers.error = None
    facts.require_fits("t", MESSAGE, 10)


def test_those_who_ask_at_once_for_a_topic_that_is_not_there_hear_of_it_together() -> None:
    """Asked for in turn, the last of many threads would wait far longer than its budget."""
    brokers = Brokers(KafkaError.UNKNOWN_TOPIC_OR_PART)
    facts, failed = facts_of(brokers), []
    gate = brokers.gates["t"] = threading.Event()

    def send() -> None:
        try:
            facts.require_fits("t", MESSAGE, 10)
        except NotFoundError:
            failed.append(threading.current_thread())

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(_waits(one) for one in threads), what="all to wait")
    gate.set()
    for thread in threads:
        thread.join(60)
    assert len(failed) == 8
    assert brokers.asked == ["t", "t"]  # a second look, since it may have been made just now


def _waits(thread: threading.Thread) -> bool:
    """Tell whether a thread asks, or waits for the one that does."""
    frame: Any = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != "prepare":
        frame = frame.f_back
    return frame is not None and "question" in frame.f_locals


@pytest.mark.parametrize(
    "brokers", [Brokers(KafkaError.TOPIC_AUTHORIZATION_FAILED), Brokers(reachable=False)]
)
def test_a_topic_that_can_not_be_asked_about_has_no_limit_and_is_let_be(brokers: Brokers) -> None:
    facts = facts_of(brokers)
    for _ in range(3):
        facts.require_fits("t", MESSAGE, 10**9)
    assert brokers.asked == ["t"]


@pytest.mark.parametrize("told", [None, "unlimited"])
def test_a_limit_that_a_broker_does_not_tell_keeps_nobody_from_sending(told: Any) -> None:
    """Others than Kafka's own brokers hide the values of settings, or write them their own way."""
    brokers = Brokers()
    brokers.settings["max.message.bytes"] = told
    facts = facts_of(brokers)

    for _ in range(2):
        facts.require_fits("t", MESSAGE, 2_000_000)

    assert facts.knows("t")


def test_an_old_limit_serves_while_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers may be away: a send must not wait for them twice."""
    monkeypatch.setattr("checkback.client.kafka.topics.LIMITS_KEPT_S", -1.0)
    brokers = Brokers()
    facts = facts_of(brokers)
    facts.require_fits("t", MESSAGE, 10)
    gate = brokers.gates["t"] = threading.Event()
    with pytest.raises(InvalidMessageError):
        facts.require_fits("t", MESSAGE, 1_001)
    wait_until(lambda: brokers.asked == ["t", "t"], what="the second question")
    assert facts.knows("t")
    gate.set()


def test_a_topic_that_was_deleted_is_missed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.client.kafka.topics.LIMITS_KEPT_S", -1.0)
    brokers = Brokers()
    facts = facts_of(brokers)
    facts.require_fits("t", MESSAGE, 10)
    brokers.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    facts.require_fits("t", MESSAGE, 10)
    wait_until(lambda: not facts.knows("t"), what="the topic to be missed")
    with pytest.raises(NotFoundError):
        facts.require_fits("t", MESSAGE, 10)


def test_a_topic_that_was_deleted_is_asked_for_within_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1_000.0
    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=lambda _: None)
    monkeypatch.setattr("checkback.client.kafka.topics.time", clock)
    brokers = Brokers()
    facts = facts_of(brokers)
    facts.require_fits("t", MESSAGE, 10)
    brokers.error = KafkaError.UNKNOWN_TOPIC_OR_PART
    now_s += 61.0
    facts.require_fits("t", MESSAGE, 10)
    wait_until(lambda: not facts.knows("t"), what="the topic to be missed")


def test_a_topic_that_is_slow_to_answer_holds_up_no_other() -> None:
    brokers = Brokers()
    facts = facts_of(brokers)
    gate = brokers.gates["slow"] = threading.Event()
    thread = threading.Thread(target=facts.prepare, args=("slow",), daemon=True)
    thread.start()
    facts.require_fits("t", MESSAGE, 10)
    assert not gate.is_set()
    gate.set()
    thread.join(60)
