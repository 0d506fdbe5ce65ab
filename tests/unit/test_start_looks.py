"""A start does not end, and skips no check, for what the brokers say only for a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from checkback.deploy.topics import FoundTopic, comparable_plans
from checkback.operations.doctor.judgements import Result, judge_topics
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import BrokerError, ConfigurationError
from checkback.sinks.kafka.cluster import described_topics
from checkback.sinks.kafka.cluster import transient_errors as asking_again
from checkback.sinks.kafka.cluster.described_topics import describe_topics as describe_topics
from checkback.streaming.start import announce, preflight
from checkback.streaming.start import topic_claim as claim
from checkback.streaming.start.transaction_timeout import LIMIT, broker_limit_ms

UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART
SETTINGS = Settings(bootstrap_servers="b:1", checkpoint="c", state_partitions=1, half_partitions=1)
PLANS = {plan.name: plan for plan in comparable_plans(SETTINGS)}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_again, "PAUSE_S", 0)


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


class Future:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def result(self, _: float | None = None) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Topics:
    """An admin client that answers with these codes for a topic, one after another."""

    def __init__(self, codes: Mapping[str, Sequence[int]]) -> None:
        self.codes = {name: list(told) for name, told in codes.items()}
        self.asked: list[list[str]] = []

    def describe_topics(self, topics: TopicCollection, **_: Any) -> dict[str, Future]:
        names: list[str] = topics.topic_names
        self.asked.append(names)
        return {name: Future(self.answer(name)) for name in names}

    def answer(self, name: str) -> Any:
        codes = self.codes.get(name)
        return failure(codes.pop(0)) if codes else SimpleNamespace(topic_id="i", partitions=[0])


@pytest.mark.parametrize("code", [UNKNOWN, KafkaError._TRANSPORT, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_topic_that_a_broker_does_not_know_yet_is_no_missing_one(code: int) -> None:
    admin: Any = Topics({"b": [code, code]})

    assert set(describe_topics(admin, ["a", "b"], lambda _: None)) == {"a", "b"}
    assert admin.asked == [["a", "b"], ["b"], ["b"]]


def test_a_topic_that_stays_unknown_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described_topics, "MADE_S", 0)

    with pytest.raises(BrokerError, match="Missing topics: b") as refused:
        describe_topics(Topics({"b": [UNKNOWN]}), ["a", "b"])  # type: ignore[arg-type]
    assert "topics create" in refused.value.remedy


def test_rights_are_blamed_only_where_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described_topics, "TIMEOUT_S", 0)
    lasting, passing = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TRANSPORT
    remedies = {}
    for code in (lasting, passing):
        with pytest.raises(BrokerError, match="do not describe b") as refused:
            describe_topics(Topics({"b": [code]}), ["b"])  # type: ignore[arg-type]
        remedies[code] = refused.value.remedy

    assert "rights" in remedies[lasting]
    assert "brokers are up" in remedies[passing]


class Configs:
    """An admin client whose topics are as planned but for one; the first answers are these."""

    def __init__(self, topic: str, configs: Mapping[str, str], *answers: Exception) -> None:
        self.different, self.answers = {topic: configs}, list(answers)

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future]:
        return {one: Future(self.answer(one.name)) for one in resources}

    def answer(self, topic: str) -> Any:
        if self.answers:
            return self.answers.pop(0)
        configs = {**PLANS[topic].configs, **self.different.get(topic, {})}
        return {name: SimpleNamespace(value=value) for name, value in configs.items()}


def test_a_broker_that_just_died_hides_no_setting_of_a_topic() -> None:
    names = SETTINGS.topics
    admin: Any = Configs(names.half, {"cleanup.policy": "wrong"}, failure(KafkaError._TRANSPORT))

    with pytest.raises(ConfigurationError, match=r"HALF_TOPIC has cleanup\.policy wrong"):
        preflight._require_configs(SETTINGS, admin)


def test_settings_that_nobody_tells_are_not_taken_for_right() -> None:
    with pytest.raises(KafkaException):
        preflight._require_configs(SETTINGS, Configs("", {}, failure(KafkaError._TIMED_OUT)))  # type: ignore[arg-type]


DIFFERENT = {
    "cleanup.policy": "compact,delete",
    "retention.bytes": "1000",
    "message.timestamp.type": "different",
    "max.message.bytes": "1",
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("topic", PLANS)
def test_a_start_refuses_exactly_the_settings_that_doctor_calls_failed(
    topic: str, name: str
) -> None:
    configs = {name: DIFFERENT[name]}
    found = {one.name: FoundTopic(one.partitions or 1, 1, one.configs) for one in PLANS.values()}
    found[topic] = FoundTopic(1, 1, {**PLANS[topic].configs, **configs})
    judged = judge_topics([PLANS[topic]], found, SETTINGS.topics)
    is_failed = Result.FAILED in {one.result for one in judged if one.check.startswith("topic")}

    is_refused = False
    try:
        preflight._require_configs(SETTINGS, Configs(topic, configs))  # type: ignore[arg-type]
    except ConfigurationError as error:
        is_refused = name in str(error)

    assert is_refused is is_failed
    if topic == SETTINGS.topics.settled:
        assert is_refused is (name in ("cleanup.policy", "retention.bytes"))


class Limits:
    """Brokers that tell their limits, or fail."""

    def __init__(self, *told: Any) -> None:
        self.told = told

    @property
    def nodes(self) -> list[Any]:
        return [SimpleNamespace(id=at) for at, _ in enumerate(self.told)]

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future]:
        answers = {
            one: told if isinstance(told, Exception) else {LIMIT: SimpleNamespace(value=told)}
            for one, told in zip(resources, self.told, strict=True)
        }
        return {one: Future(answer) for one, answer in answers.items()}


def test_a_broker_that_died_does_not_hide_the_limit_of_the_others() -> None:
    dead, silent = failure(KafkaError._TIMED_OUT), TimeoutError()
    limits: Any = Limits(dead, "60000", silent, "90000")
    nobody: Any = Limits(failure(KafkaError.CLUSTER_AUTHORIZATION_FAILED))

    assert broker_limit_ms(limits, limits.nodes) == 60_000
    assert broker_limit_ms(nobody, nobody.nodes) is None


class Settled:
    """A consumer of a partition whose leader changes; then it is empty."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def get_watermark_offsets(self, *_: object) -> tuple[int, int]:
        if self.codes:
            raise failure(self.codes.pop(0))
        return 5, 5

    def close(self) -> None: ...


def test_the_claim_is_looked_for_again_while_a_leader_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moving, forbidden = (
        Settled(KafkaError.NOT_LEADER_FOR_PARTITION),
        Settled(KafkaError.TOPIC_AUTHORIZATION_FAILED),
    )
    monkeypatch.setattr(claim, "Consumer", lambda _: moving)
    assert claim.first_record(SETTINGS, {}) is None

    monkeypatch.setattr(claim, "Consumer", lambda _: forbidden)
    with pytest.raises(BrokerError, match="can't be claimed"):
        claim.first_record(SETTINGS, {})


def test_a_status_topic_that_can_not_be_looked_for_ends_the_start_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(**_: Any) -> None:
        raise failure(KafkaError._TIMED_OUT)

    monkeypatch.setattr(announce, "AdminClient", lambda _: SimpleNamespace(list_topics=silent))

    with pytest.raises(BrokerError, match="topics can't be listed"):
        announce.publish_status(SETTINGS, {}, 0)


def test_a_start_that_may_not_write_a_tick_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def produce(*_: object, on_delivery: Callable[..., None], **__: Any) -> None:
        on_delivery(SimpleNamespace(str=lambda: "no such rights"), None)

    refusing = SimpleNamespace(produce=produce, flush=lambda _: 0)
    monkeypatch.setattr(announce, "Producer", lambda _: refusing)

    with pytest.raises(BrokerError, match=r"no such rights.*that this user may write"):
        announce.write_tick(SETTINGS)
