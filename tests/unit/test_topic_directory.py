"""What is known of topics, for how long, and what rejections add to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.topic_directory import (
    BROKER_DEFAULT_BYTES_MAX,
    KEPT_S,
    NEW_POLL_S,
    NEW_WAIT_S,
    SETTINGS_PAUSE_S,
    SETTINGS_WAIT_S,
    SHORTAGE_WAIT_S,
    TRANSACTION_END_AGE_MAX_MS,
    TRANSACTION_END_BYTES,
    KnownTopic,
    TopicDirectory,
)

BEFORE, BYTES = "message.timestamp.before.max.ms", "max.message.bytes"


@dataclass
class Answer:
    configs: dict[str, str] | None
    is_silent: bool

    def result(self, _: float) -> Any:
        if self.is_silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if self.configs is None:
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        return {name: SimpleNamespace(value=value) for name, value in self.configs.items()}


@dataclass
class Placed:
    leader: int = 1
    replicas: tuple[int, ...] = (1, 2, 3)
    isrs: tuple[int, ...] = (1, 2, 3)


@dataclass
class Cluster:
    """A cluster with settings by topic, and what a directory knows of it; None: not to be read.

    The next `silent_looks` times that somebody asks for settings, no broker answers. Where the
    controller died after topics were listed that often, it does not until they are listed again.
    """

    topics: dict[str, dict[str, str] | None]
    partitions: int = 1
    is_up: bool = True
    listed: int = 0
    placed: dict[str, Placed] = field(default_factory=dict)
    described: list[str] = field(default_factory=list)
    silent_looks: int = 0
    controller_died_after: int = 0
    now_s: float = 0.0
    on_pause: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        client: Any = self
        self.directory = TopicDirectory(client, lambda: self.now_s, self._pause)

    def find(self, topic: str = "a", *, after_s: float | None = None) -> KnownTopic:
        """Look a topic up; after a time that is given, what is old may be renewed."""
        if after_s is not None:
            self.now_s = after_s
            self.directory.allow_refresh()
        found = self.directory.find(topic)
        assert found is not None
        return found

    def _pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.on_pause()

    def list_topics(self, timeout: float) -> Any:
        assert timeout
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.listed += 1
        numbers = range(self.partitions)
        last = {name: {numbers[-1]: self.placed.get(name, Placed())} for name in self.topics}
        healthy = dict.fromkeys(numbers, Placed())
        topics = {
            name: SimpleNamespace(partitions=healthy | last[name], error=None)
            for name in self.topics
        }
        return SimpleNamespace(topics=topics)

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Answer]:
        assert request_timeout
        self.described += [one.name for one in resources]
        is_silent = self.silent_looks > 0 or self.listed == self.controller_died_after
        self.silent_looks -= 1
        return {one: Answer(self.topics[one.name], is_silent) for one in resources}


def test_a_topic_is_looked_at_once_until_its_knowledge_is_old() -> None:
    cluster = Cluster({"a": {BYTES: "1000"}, "b": {}})
    cluster.find("a")
    cluster.find("b")
    cluster.partitions, cluster.topics["a"] = 8, {BYTES: "2000"}

    assert cluster.find(after_s=KEPT_S - 1) == KnownTopic(1, 1_000)
    assert cluster.find(after_s=KEPT_S) == KnownTopic(8, 2_000)
    assert cluster.listed == 2
    assert cluster.described == ["a", "b", "a", "b"]


def test_brokers_that_do_not_answer_leave_old_knowledge_as_it_is() -> None:
    cluster = Cluster({"a": {BYTES: "1000"}})
    cluster.find()
    cluster.is_up = False

    assert cluster.find(after_s=KEPT_S) == KnownTopic(1, 1_000)


def test_settings_that_no_broker_tells_again_stay_as_they_were_read() -> None:
    cluster = Cluster({"a": {BYTES: "10000000", "min.insync.replicas": "2"}})
    cluster.find()
    cluster.partitions, cluster.silent_looks = 2, 100
    cluster.placed["a"] = Placed(isrs=(1,))

    found = cluster.find(after_s=KEPT_S)

    assert (found.partitions, found.record_batch_bytes_max) == (2, 10_000_000)
    assert found.shortage


def test_settings_are_asked_for_again_until_a_broker_that_has_died_is_known_to_have() -> None:
    cluster = Cluster({"a": {BYTES: "1000"}}, silent_looks=19)

    assert cluster.find() == KnownTopic(1, 1_000)
    assert cluster.now_s == 19 * SETTINGS_PAUSE_S


def test_a_controller_that_has_died_is_replaced_before_settings_are_asked_for_again() -> None:
    cluster = Cluster({"a": {BYTES: "1000"}}, controller_died_after=1)

    assert cluster.find() == KnownTopic(1, 1_000)
    assert cluster.now_s == SETTINGS_PAUSE_S


def test_no_limit_is_made_up_for_a_topic_that_no_broker_tells_of() -> None:
    cluster = Cluster({"a": {BYTES: "10000000"}}, silent_looks=100)

    with pytest.raises(BrokerError, match="settings of a can't be read"):
        cluster.find()
    assert cluster.now_s == SETTINGS_WAIT_S
    cluster.silent_looks = 0
    assert cluster.find() == KnownTopic(1, 10_000_000)


def test_what_rejections_told_lasts_until_knowledge_is_old() -> None:
    cluster = Cluster({"a": None})
    assert cluster.find() == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)

    cluster.directory.learn_limit("a", cut_bytes=500)
    cluster.directory.learn_limit("a", bytes_max=900)
    cluster.directory.learn_limit("a", bytes_max=1_000, cut_bytes=700)
    cluster.directory.forget_all()

    assert cluster.find() == KnownTopic(1, 900, batch_cut_bytes=500)
    assert cluster.find(after_s=KEPT_S) == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)


@pytest.mark.parametrize(
    ("configs", "before_max_ms"),
    [
        ({BEFORE: "5000"}, 5_000),
        ({BEFORE: str(2**63 - 1)}, None),
        ({BEFORE: "5000", "message.timestamp.type": "LogAppendTime"}, None),
        ({}, None),
    ],
)
def test_the_age_that_a_topic_takes_is_known_where_the_sender_sets_the_time(
    configs: dict[str, str], before_max_ms: int | None
) -> None:
    assert Cluster({"a": configs}).find().before_max_ms == before_max_ms


@pytest.mark.parametrize(
    ("before_max_ms", "stamped", "bytes_max", "bounds"),
    [
        (0, "CreateTime", TRANSACTION_END_BYTES, (BEFORE,)),
        (TRANSACTION_END_AGE_MAX_MS - 1, "CreateTime", TRANSACTION_END_BYTES, (BEFORE,)),
        (TRANSACTION_END_AGE_MAX_MS, "CreateTime", TRANSACTION_END_BYTES, ()),
        (0, "LogAppendTime", TRANSACTION_END_BYTES, ()),
        (0, "LogAppendTime", TRANSACTION_END_BYTES - 1, (BYTES,)),
        (0, "CreateTime", TRANSACTION_END_BYTES - 1, (BEFORE, BYTES)),
    ],
)
def test_a_topic_that_may_reject_the_end_of_transactions_is_known(
    before_max_ms: int, stamped: str, bytes_max: int, bounds: tuple[str, ...]
) -> None:
    configs = {BEFORE: str(before_max_ms), "message.timestamp.type": stamped, BYTES: str(bytes_max)}
    cluster = Cluster({"a": configs, "b": {}})

    known = cluster.directory.find_all()

    assert [one.transaction_end_bounds for one in (known["a"], known["b"])] == [bounds, ()]
    assert cluster.find("a") == known["a"]


def test_a_compacted_topic_needs_keys() -> None:
    assert Cluster({"a": {"cleanup.policy": "compact,delete"}}).find().needs_key


@pytest.mark.parametrize(
    ("placed", "least", "shortage"),
    [
        (Placed(), "2", ""),
        (Placed(isrs=(2, 3)), "2", ""),
        (Placed(isrs=(2,)), "2", "partition 1 has 1 of the 2 replicas in sync"),
        (Placed(isrs=(2,)), "1", ""),
        (Placed(replicas=(1,), isrs=(1,)), "2", ""),
        (Placed(leader=-1, isrs=()), "1", "partition 1 has no leader"),
    ],
)
def test_a_topic_that_is_short_of_replicas_is_known(
    placed: Placed, least: str, shortage: str
) -> None:
    found = Cluster({"a": {"min.insync.replicas": least}}, 2, placed={"a": placed}).find()

    assert found.shortage.startswith(shortage)
    assert bool(found.shortage) is bool(shortage)


def test_a_topic_whose_settings_may_not_be_read_is_known_to_have_no_leader() -> None:
    found = Cluster({"a": None}, placed={"a": Placed(leader=-1)}).find()

    assert found == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX, shortage="partition 0 has no leader")


def test_a_leader_that_is_elected_at_once_is_waited_for() -> None:
    cluster = Cluster({"a": {}}, placed={"a": Placed(leader=-1)})
    cluster.on_pause = cluster.placed.clear

    assert cluster.find() == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)
    assert cluster.now_s < 1


def test_a_topic_that_stays_short_is_waited_for_once() -> None:
    cluster = Cluster({"a": {}}, placed={"a": Placed(leader=-1)})

    for _ in range(3):
        assert cluster.find(after_s=cluster.now_s).shortage

    assert cluster.now_s == SHORTAGE_WAIT_S
    cluster.placed.clear()
    assert not cluster.find(after_s=cluster.now_s + KEPT_S).shortage


def test_a_topic_that_its_broker_learns_of_a_moment_later_is_found() -> None:
    cluster = Cluster({"a": {}})
    assert cluster.directory.find("new") is None
    cluster.on_pause = lambda: cluster.topics.update(new={})

    assert cluster.directory.find_new("new") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)


def test_topics_that_do_not_exist_are_sought_for_a_second_in_half_a_minute() -> None:
    cluster = Cluster({})
    find_new = cluster.directory.find_new

    assert [find_new(f"missing-{number}") for number in range(20)] == [None] * 20
    assert cluster.now_s == pytest.approx(NEW_WAIT_S, abs=NEW_POLL_S)
    cluster.now_s = KEPT_S
    assert find_new("missing-20") is None
    assert cluster.now_s == pytest.approx(KEPT_S + NEW_WAIT_S, abs=NEW_POLL_S)
