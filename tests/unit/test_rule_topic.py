"""Rules on a topic: brokers that are silent are not taken for rules that are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.errors import BrokerError, ConfigurationError
from checkback.sinks.kafka.read import rule_source
from checkback.sinks.kafka.read.rule_source import LOOK_S, TopicRules
from checkback.streaming.access.rules_in_force import AccessWatch

UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART


class Rules:
    """A consumer of a topic with rules; a look for it first ends with these codes."""

    def __init__(self, *codes: int, raised: int | None = None) -> None:
        self.codes, self.raised = list(codes), raised
        self.closed = 0
        self.left: list[Any] = []

    def list_topics(self, topic: str, _: float) -> Any:
        if self.raised is not None:
            raise KafkaException(KafkaError(self.raised))
        error = KafkaError(self.codes.pop(0)) if self.codes else None
        known = SimpleNamespace(error=error, partitions={} if error else {0: None})
        return SimpleNamespace(topics={topic: known})

    def assign(self, _: object) -> None:
        end = KafkaError(KafkaError._PARTITION_EOF)
        self.left = [
            SimpleNamespace(error=lambda: None, value=lambda: b"accounts: []"),
            SimpleNamespace(error=lambda: end),
        ]

    def consume(self, *_: object) -> list[Any]:
        found, self.left = self.left, []
        return found

    def close(self) -> None:
        self.closed += 1


def source(monkeypatch: pytest.MonkeyPatch, consumer: Rules) -> TopicRules:
    monkeypatch.setattr(rule_source, "Consumer", lambda _: consumer)
    return TopicRules("t", {}, lambda _: None)


@pytest.mark.parametrize("code", [UNKNOWN, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_topic_that_a_broker_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    assert not source(monkeypatch, Rules(code, code)).rules().accounts


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT])
def test_nobody_is_told_to_publish_rules_because_brokers_are_silent(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(rule_source, "MADE_S", 0)
    consumer = Rules(raised=code)

    with pytest.raises(BrokerError) as silent:
        source(monkeypatch, consumer).rules()
    assert "publish" not in silent.value.remedy
    assert consumer.closed == 1


@pytest.mark.parametrize("code", [UNKNOWN, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_rules_that_are_not_there_or_may_not_be_read_are_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(rule_source, "MADE_S", 0)

    with pytest.raises(ConfigurationError, match="access rules"):
        source(monkeypatch, Rules(code)).rules()


def test_brokers_that_fall_silent_later_leave_the_rules_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, now_s = Rules(), [100.0]
    rules = source(monkeypatch, consumer)
    watch = AccessWatch(rules, lambda: now_s[0])
    watch.read()
    version = watch.version
    rules.close()
    monkeypatch.setattr(rule_source, "MADE_S", 0)
    consumer.raised = KafkaError._TRANSPORT

    now_s[0] += 100 * LOOK_S
    assert not watch.take_new_rules()
    assert watch.version == version
    assert "brokers are up" in watch.problem


def test_a_connection_that_breaks_behind_the_last_record_hides_no_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer hears of a partition's end once; what follows must not undo that."""

    class Broken(Rules):
        def assign(self, _: object) -> None:
            super().assign(None)
            broken = KafkaError(KafkaError._TRANSPORT)
            self.left.append(SimpleNamespace(error=lambda: broken))

    monkeypatch.setattr(rule_source, "ANSWER_S", 0.1)

    assert not source(monkeypatch, Broken()).rules().accounts
