"""What is known of topics, for how long, and what rejections add to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.sinks.kafka.real_topics import (
    BROKER_DEFAULT_BYTES_MAX,
    KEPT_S,
    MARKER_AGE_MAX_MS,
    KnownTopic,
    TopicDirectory,
)


@dataclass
class Answer:
    configs: dict[str, str] | None

    def result(self, _: float) -> Any:
        if self.configs is None:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        return {name: Entry(value) for name, value in self.configs.items()}


@dataclass
class Entry:
    value: str


@dataclass
class Listed:
    partitions: dict[int, None]
    error: None = None


@dataclass
class Metadata:
    topics: dict[str, Listed]


@dataclass
class Cluster:
    """A cluster with settings by topic; None: they may not be read."""

    topics: dict[str, dict[str, str] | None]
    partitions: int = 1
    is_up: bool = True
    listed: int = 0
    described: list[str] = field(default_factory=list)

    def list_topics(self, timeout: float) -> Metadata:
        assert timeout
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.listed += 1
        partitions: dict[int, None] = dict.fromkeys(range(self.partitions))
        return Metadata({name: Listed(partitions) for name in self.topics})

    def describe_configs(self, resources: list[Any]) -> dict[Any, Answer]:
        self.described += [one.name for one in resources]
        return {one: Answer(self.topics[one.name]) for one in resources}


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def directory_of(cluster: Cluster, clock: Clock) -> TopicDirectory:
    client: Any = cluster
    return TopicDirectory(client, clock)


def test_a_topic_is_looked_at_once_until_its_knowledge_is_old() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "10"}, "b": {}}), Clock()
    directory = directory_of(cluster, clock)
    directory.find("a")
    directory.find("b")
    cluster.partitions, cluster.topics["a"] = 8, {"max.message.bytes": "20"}

    clock.now_s = KEPT_S - 1
    directory.expect_change()
    assert directory.find("a") == KnownTopic(1, 10)
    clock.now_s = KEPT_S
    directory.expect_change()

    assert directory.find("a") == KnownTopic(8, 20)
    assert cluster.listed == 2
    assert cluster.described == ["a", "b", "a", "b"]


def test_a_topic_that_was_deleted_is_found_missing_when_knowledge_is_old() -> None:
    cluster, clock = Cluster({"a": {}}), Clock()
    directory = directory_of(cluster, clock)
    directory.find("a")
    del cluster.topics["a"]
    clock.now_s = KEPT_S
    directory.expect_change()

    assert directory.find("a") is None


def test_brokers_that_do_not_answer_leave_old_knowledge_as_it_is() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "10"}}), Clock()
    directory = directory_of(cluster, clock)
    directory.find("a")
    cluster.is_up = False
    clock.now_s = KEPT_S
    directory.expect_change()

    assert directory.find("a") == KnownTopic(1, 10)


def test_what_rejections_told_lasts_until_knowledge_is_old() -> None:
    cluster, clock = Cluster({"a": None}), Clock()
    directory = directory_of(cluster, clock)
    assert directory.find("a") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)

    directory.teach("a", cut_bytes=500)
    directory.teach("a", bytes_max=900)
    directory.teach("a", bytes_max=1_000, cut_bytes=700)
    directory.forget_all()

    assert directory.find("a") == KnownTopic(1, 900, batch_cut_bytes=500)
    clock.now_s = KEPT_S
    directory.expect_change()
    assert directory.find("a") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)


@pytest.mark.parametrize(
    ("configs", "before_max_ms"),
    [
        ({"message.timestamp.before.max.ms": "5000"}, 5_000),
        ({"message.timestamp.before.max.ms": str(2**63 - 1)}, None),
        (
            {
                "message.timestamp.before.max.ms": "5000",
                "message.timestamp.type": "LogAppendTime",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_the_age_that_a_topic_takes_is_known_where_the_sender_sets_the_time(
    configs: dict[str, str], before_max_ms: int | None
) -> None:
    found = directory_of(Cluster({"a": configs}), Clock()).find("a")

    assert found is not None
    assert found.before_max_ms == before_max_ms


@pytest.mark.parametrize(
    ("before_max_ms", "stamped", "rejects"),
    [
        (0, "CreateTime", True),
        (MARKER_AGE_MAX_MS - 1, "CreateTime", True),
        (MARKER_AGE_MAX_MS, "CreateTime", False),
        (0, "LogAppendTime", False),
    ],
)
def test_a_topic_that_may_reject_the_end_of_transactions_is_known(
    before_max_ms: int, stamped: str, *, rejects: bool
) -> None:
    configs = {
        "message.timestamp.before.max.ms": str(before_max_ms),
        "message.timestamp.type": stamped,
    }
    directory = directory_of(Cluster({"a": configs, "b": {}}), Clock())

    assert directory.all_rejecting_markers() == (["a"] if rejects else [])
    found = directory.find("a")
    assert found is not None
    assert found.rejects_markers is rejects


def test_a_compacted_topic_needs_keys() -> None:
    found = directory_of(Cluster({"a": {"cleanup.policy": "compact,delete"}}), Clock()).find("a")

    assert found is not None
    assert found.needs_key
