"""Topics whose replicas are missing: the sink against three brokers, one of which is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.bad_records import admin, bodies, refused
from tests.integration.sinking import World, commits, create_listed, make_world, outcome

from checkback.sinks.kafka.cluster import topic_directory as real_topics
from checkback.state import Action
from checkback.testing.broker import Cluster
from checkback.testing.waiting import wait_until

PROPERTIES = {"replica.lag.time.max.ms": "1500", "broker.session.timeout.ms": "3000"}


pytestmark = pytest.mark.nightly  # by day tests/unit/test_short_topics.py, without brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), properties=PROPERTIES, heap_mb=256) as running:
        yield running


@pytest.fixture
def spread(cluster: Cluster, unique: str) -> Iterator[World]:
    """A world whose own topics stand on all three brokers."""
    made = make_world(cluster.bootstrap_servers, unique, replicas=3)
    yield made
    made.close()


@pytest.fixture
def lone(spread: World) -> str:
    """A topic that has no leader without broker 1."""
    return make_topic_on(spread, f"{spread.real}-lone", [1])


@pytest.fixture
def narrow(spread: World) -> str:
    """A topic that has too few replicas in sync without broker 1."""
    return make_topic_on(spread, f"{spread.real}-narrow", [2, 1])


def make_topic_on(world: World, name: str, brokers: list[int]) -> str:
    config = {"min.insync.replicas": str(len(brokers))}
    assignment: Any = [brokers]  # its stub wants text
    create_listed(admin(world), NewTopic(name, 1, replica_assignment=assignment, config=config))
    return name


@contextmanager
def broker_killed(cluster: Cluster, world: World, *topics: str) -> Iterator[None]:
    """Kill broker 1, and wait until the others tell that the topics lack it."""
    client = admin(world)
    cluster.broker(1).kill()
    try:
        wait_until(lambda: not any(is_whole(client, topic) for topic in topics))
        yield
    finally:
        cluster.broker(1).restart()
        wait_until(lambda: all(is_whole(client, topic) for topic in topics))


def is_whole(client: AdminClient, topic: str) -> bool:
    [placed] = client.list_topics(topic).topics[topic].partitions.values()
    return placed.leader >= 0 and len(placed.isrs) == len(placed.replicas)


def test_topics_that_are_short_of_replicas_cost_what_is_for_them_only(
    spread: World, cluster: Cluster, lone: str, narrow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_topics, "SHORTAGE_WAIT_S", 1)
    check_topic = make_topic_on(spread, spread.names.check("h"), [1])
    spread.halves([b"lone", b"later"], real=lone)
    spread.halves([b"narrow", b"later"], real=narrow)
    spread.halves([b"asked"], group="h")
    spread.halves([b"healthy"])
    finals = ((Action.COMMIT, offset, 0) for offset in (0, 2, 5))
    writer = spread.writer()
    with broker_killed(cluster, spread, lone, narrow, check_topic):
        report = writer.write([outcome(*finals, (Action.CHECK, 4, 1))], 0)

    assert report.counts["finals_refused"] == 2
    assert report.undelivered_groups == {"h": 1}
    told = {body: (facts["reason"], facts["message"] or "") for body, facts in refused(spread)}
    assert {reason for reason, _ in told.values()} == {"REAL_TOPIC_UNAVAILABLE"}
    assert f"{lone}: partition 0 has no leader" in told[b"lone"][1]
    assert f"{narrow}: partition 0 has 1 of the 2 replicas in sync" in told[b"narrow"][1]
    assert bodies(spread, spread.real) == [b"healthy"]
    writer.directory.forget_all()
    writer.write([commits(1, 3)], 1)
    assert [bodies(spread, topic) for topic in (lone, narrow)] == [[b"later"], [b"later"]]
