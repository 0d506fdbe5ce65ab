"""What is known of topics, for how long, and what rejections add to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.topic_directory import (
    BROKER_DEFAULT_BYTES_MAX,
    KEPT_S,
    MARKER_AGE_MAX_MS,
    MARKER_BYTES,
    NEW_POLL_S,
    NEW_WAIT_S,
    SETTINGS_PAUSE_S,
    SETTINGS_WAIT_S,
    SHORTAGE_WAIT_S,
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
        return {name: Entry(value) for name, value in self.configs.items()}


@dataclass
class Entry:
    value: str


@dataclass
class Placed:
    leader: int = 1
    replicas: tuple[int, ...] = (1, 2, 3)
    isrs: tuple[int, ...] = (1, 2, 3)


@dataclass
class Listed:
    partitions: dict[int, Placed]
    error: None = None


@dataclass
class Metadata:
    topics: dict[str, Listed]


@dataclass
class Cluster:
    """A cluster with settings by topic; None: they may not be read.

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

    def list_topics(self, timeout: float) -> Metadata:
        assert timeout
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.listed += 1
        numbers = range(self.partitions)
        last = {name: {numbers[-1]: self.placed.get(name, Placed())} for name in self.topics}
        healthy = dict.fromkeys(numbers, Placed())
        return Metadata({name: Listed(healthy | last[name]) for name in self.topics})

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Answer]:
        assert request_timeout
        self.described += [one.name for one in resources]
        is_silent = self.silent_looks > 0 or self.listed == self.controller_died_after
        self.silent_looks -= 1
        return {one: Answer(self.topics[one.name], is_silent) for one in resources}


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


def directory_of(cluster: Cluster, clock: Clock) -> TopicDirectory:
    client: Any = cluster
    return TopicDirectory(client, clock, clock.pause)


def found_in(cluster: Cluster, clock: Clock, topic: str = "a") -> KnownTopic:
    found = directory_of(cluster, clock).find(topic)
    assert found is not None
    return found


def test_a_topic_is_looked_at_once_until_its_knowledge_is_old() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "1000"}, "b": {}}), Clock()
    directory = directory_of(cluster, clock)
    directory.find("a")
    directory.find("b")
    cluster.partitions, cluster.topics["a"] = 8, {"max.message.bytes": "2000"}

    clock.now_s = KEPT_S - 1
    directory.allow_refresh()
    assert directory.find("a") == KnownTopic(1, 1_000)
    clock.now_s = KEPT_S
    directory.allow_refresh()

    assert directory.find("a") == KnownTopic(8, 2_000)
    assert cluster.listed == 2
    assert cluster.described == ["a", "b", "a", "b"]


def test_brokers_that_do_not_answer_leave_old_knowledge_as_it_is() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "1000"}}), Clock()
    directory = directory_of(cluster, clock)
    directory.find("a")
    cluster.is_up = False
    clock.now_s = KEPT_S
    directory.allow_refresh()

    assert directory.find("a") == KnownTopic(1, 1_000)


def test_settings_that_no_broker_tells_again_stay_as_they_were_read() -> None:
    large = {"max.message.bytes": "10000000", "min.insync.replicas": "2"}
    cluster, clock = Cluster({"a": large}), Clock()
    directory = directory_of(cluster, clock)
    directory.find("a")
    cluster.partitions, cluster.silent_looks = 2, 100
    cluster.placed["a"] = Placed(isrs=(1,))
    clock.now_s = KEPT_S
    directory.allow_refresh()

    found = directory.find("a")

    assert found is not None
    assert (found.partitions, found.record_batch_bytes_max) == (2, 10_000_000)
    assert found.shortage


def test_settings_are_asked_for_again_until_a_broker_that_has_died_is_known_to_have() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "1000"}}, silent_looks=19), Clock()

    assert found_in(cluster, clock) == KnownTopic(1, 1_000)
    assert clock.now_s == 19 * SETTINGS_PAUSE_S


def test_a_controller_that_has_died_is_replaced_before_settings_are_asked_for_again() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "1000"}}, controller_died_after=1), Clock()

    assert found_in(cluster, clock) == KnownTopic(1, 1_000)
    assert clock.now_s == SETTINGS_PAUSE_S


def test_no_limit_is_made_up_for_a_topic_that_no_broker_tells_of() -> None:
    cluster, clock = Cluster({"a": {"max.message.bytes": "10000000"}}, silent_looks=100), Clock()
    directory = directory_of(cluster, clock)

    with pytest.raises(BrokerError, match="settings of a can't be read"):
        directory.find("a")
    assert clock.now_s == SETTINGS_WAIT_S
    cluster.silent_looks = 0
    assert directory.find("a") == KnownTopic(1, 10_000_000)


def test_what_rejections_told_lasts_until_knowledge_is_old() -> None:
    cluster, clock = Cluster({"a": None}), Clock()
    directory = directory_of(cluster, clock)
    assert directory.find("a") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)

    directory.learn_limit("a", cut_bytes=500)
    directory.learn_limit("a", bytes_max=900)
    directory.learn_limit("a", bytes_max=1_000, cut_bytes=700)
    directory.forget_all()

    assert directory.find("a") == KnownTopic(1, 900, batch_cut_bytes=500)
    clock.now_s = KEPT_S
    directory.allow_refresh()
    assert directory.find("a") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)


@pytest.mark.parametrize(
    ("configs", "before_max_ms"),
    [
        ({"message.timestamp.before.max.ms": "5000"}, 5_000),
        ({"message.timestamp.before.max.ms": str(2**63 - 1)}, None),
        (
            {"message.timestamp.before.max.ms": "5000", "message.timestamp.type": "LogAppendTime"},
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
    ("before_max_ms", "stamped", "bytes_max", "bounds"),
    [
        (0, "CreateTime", MARKER_BYTES, (BEFORE,)),
        (MARKER_AGE_MAX_MS - 1, "CreateTime", MARKER_BYTES, (BEFORE,)),
        (MARKER_AGE_MAX_MS, "CreateTime", MARKER_BYTES, ()),
        (0, "LogAppendTime", MARKER_BYTES, ()),
        (0, "LogAppendTime", MARKER_BYTES - 1, (BYTES,)),
        (0, "CreateTime", MARKER_BYTES - 1, (BEFORE, BYTES)),
    ],
)
def test_a_topic_that_may_reject_the_end_of_transactions_is_known(
    before_max_ms: int, stamped: str, bytes_max: int, bounds: tuple[str, ...]
) -> None:
    configs = {BEFORE: str(before_max_ms), "message.timestamp.type": stamped, BYTES: str(bytes_max)}
    directory = directory_of(Cluster({"a": configs, "b": {}}), Clock())

    known = directory.find_all()

    assert [one.marker_bounds for one in (known["a"], known["b"])] == [bounds, ()]
    assert directory.find("a") == known["a"]


def test_a_compacted_topic_needs_keys() -> None:
    found = directory_of(Cluster({"a": {"cleanup.policy": "compact,delete"}}), Clock()).find("a")

    assert found is not None
    assert found.needs_key


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
    cluster = Cluster({"a": {"min.insync.replicas": least}}, 2, placed={"a": placed})

    found = found_in(cluster, Clock())

    assert found.shortage.startswith(shortage)
    assert bool(found.shortage) is bool(shortage)


def test_a_topic_whose_settings_may_not_be_read_is_known_to_have_no_leader() -> None:
    found = found_in(Cluster({"a": None}, placed={"a": Placed(leader=-1)}), Clock())

    assert found == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX, shortage="partition 0 has no leader")


def test_a_leader_that_is_elected_at_once_is_waited_for() -> None:
    cluster, clock = Cluster({"a": {}}, placed={"a": Placed(leader=-1)}), Clock()
    directory = directory_of(cluster, clock)

    def elect(seconds: float) -> None:
        clock.pause(seconds)
        cluster.placed.clear()

    directory.pause = elect

    assert directory.find("a") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)
    assert clock.now_s < 1


def test_a_topic_that_stays_short_is_waited_for_once() -> None:
    cluster, clock = Cluster({"a": {}}, placed={"a": Placed(leader=-1)}), Clock()
    directory = directory_of(cluster, clock)

    for _ in range(3):
        directory.allow_refresh()
        found = directory.find("a")
        assert found is not None
        assert found.shortage

    assert clock.now_s == SHORTAGE_WAIT_S
    clock.now_s += KEPT_S
    cluster.placed.clear()
    directory.allow_refresh()
    found = directory.find("a")
    assert found is not None
    assert not found.shortage


def test_a_topic_that_its_broker_learns_of_a_moment_later_is_found() -> None:
    cluster, clock = Cluster({"a": {}}), Clock()
    directory = directory_of(cluster, clock)
    assert directory.find("new") is None

    def create(seconds: float) -> None:
        clock.pause(seconds)
        cluster.topics["new"] = {}

    directory.pause = create

    assert directory.find_new("new") == KnownTopic(1, BROKER_DEFAULT_BYTES_MAX)


def test_topics_that_do_not_exist_are_sought_for_a_second_in_half_a_minute() -> None:
    cluster, clock = Cluster({}), Clock()
    directory = directory_of(cluster, clock)

    assert [directory.find_new(f"missing-{number}") for number in range(20)] == [None] * 20
    assert clock.now_s == pytest.approx(NEW_WAIT_S, abs=NEW_POLL_S)
    clock.now_s = KEPT_S
    assert directory.find_new("missing-20") is None
    assert clock.now_s == pytest.approx(KEPT_S + NEW_WAIT_S, abs=NEW_POLL_S)
