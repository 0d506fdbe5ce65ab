"""Topics whose replicas are missing: the sink against three brokers, one of which is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from tests.integration.bad_records import admin, bodies, refused
from tests.integration.sinking import World, commits, make_world, outcome

from checkback.protocol.errors import BrokerError
from checkback.sinks import writer as sinks_writer
from checkback.sinks.kafka import real_topics
from checkback.sinks.kafka.real_topics import TopicDirectory
from checkback.sinks.kafka.transaction import MarkedProducer
from checkback.state import Action
from checkback.testing.broker import Cluster
from checkback.testing.waiting import wait_until

PROPERTIES = {"replica.lag.time.max.ms": "1500"}
SHORTAGES = [([1], "no leader"), ([2, 1], "1 of the 2 replicas in sync")]
"""Of a topic whose broker 1 is killed: its replicas, and what it is short of then."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), properties=PROPERTIES, heap_mb=256) as running:
        yield running


@pytest.fixture(params=["compiled", "python"])
def spread(
    cluster: Cluster,
    unique: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """A world whose own topics stand on all three brokers."""
    monkeypatch.setattr(real_topics, "SHORTAGE_WAIT_S", 1)
    is_native = request.param == "compiled"
    made = make_world(cluster.bootstrap_servers, unique, native_sink=is_native, replicas=3)
    yield made
    made.close()


def make_topic_on(world: World, name: str, brokers: list[int]) -> str:
    config = {"min.insync.replicas": str(len(brokers))}
    assignment: Any = [brokers]  # its stub wants text
    made = NewTopic(name, 1, replica_assignment=assignment, config=config)
    client = admin(world)  # held: its requests end with it
    client.create_topics([made])[name].result()
    return name


@contextmanager
def broker_killed(cluster: Cluster, world: World, topic: str) -> Iterator[None]:
    """Kill broker 1, and wait until the others tell what the topic is short of."""
    cluster.broker(1).kill()
    try:
        wait_until(lambda: shortage(world, topic) != "", 60)
        yield
    finally:
        cluster.broker(1).restart()
        wait_until(lambda: shortage(world, topic) == "", 60)


def shortage(world: World, topic: str) -> str:
    known = TopicDirectory(admin(world)).find(topic)
    return "gone" if known is None else known.shortage


@pytest.mark.parametrize(("brokers", "short_of"), SHORTAGES)
def test_a_final_for_a_topic_that_is_short_of_replicas_costs_itself_only(
    spread: World, cluster: Cluster, brokers: list[int], short_of: str
) -> None:
    short = make_topic_on(spread, f"{spread.real}-short", brokers)
    spread.halves([b"a", b"c"], real=short)
    spread.halves([b"b"])
    writer = spread.writer()
    with broker_killed(cluster, spread, short):
        report = writer.write([commits(0, 2)], 0, 0)

    assert report.counts["finals_refused"] == 1
    [(body, facts)] = refused(spread)
    assert (body, facts["reason"]) == (b"a", "REAL_TOPIC_UNAVAILABLE")
    assert short_of in (facts["message"] or "")
    assert bodies(spread, spread.real) == [b"b"]
    writer.directory.forget_all()
    writer.write([commits(1)], 1, 0)
    assert bodies(spread, short) == [b"c"]


def test_a_check_for_a_topic_that_is_short_of_replicas_is_undelivered(
    spread: World, cluster: Cluster
) -> None:
    short = make_topic_on(spread, spread.names.check("h"), [1])
    spread.halves([b"a"], group="h")
    spread.halves([b"b"])
    with broker_killed(cluster, spread, short):
        decided = outcome((Action.CHECK, 0, 1), (Action.COMMIT, 1, 0))
        report = spread.writer().write([decided], 0, 0)

    assert report.undelivered_groups == {"h": 1}
    assert bodies(spread, spread.real) == [b"b"]
    assert bodies(spread, short) == []


@pytest.mark.parametrize("spread", ["compiled"], indirect=True)
@pytest.mark.parametrize(("brokers", "short_of"), SHORTAGES)
def test_a_broker_that_is_lost_in_mid_transaction_is_named_and_nothing_is_lost(
    spread: World,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    brokers: list[int],
    short_of: str,
) -> None:
    monkeypatch.setattr(sinks_writer, "MarkedProducer", partial(MarkedProducer, init_timeout_s=10))
    short = make_topic_on(spread, f"{spread.real}-short", brokers)
    spread.halves([b"a", b"c"], real=short)
    spread.halves([b"b"])
    writer = spread.writer()
    writer.write([commits(0)], 0, 0)
    looked_s = time.monotonic()
    writer.directory.clock_s = lambda: looked_s
    with broker_killed(cluster, spread, short), pytest.raises(BrokerError) as ended:
        writer.write([commits(1, 2)], 1, 0)

    assert ended.value.exit_code == 3
    assert f"{short} (partition 0 has {short_of}" in ended.value.remedy
    spread.writer().write([commits(1, 2)], 1, 0)
    assert bodies(spread, short) == [b"a", b"c"]
    assert bodies(spread, spread.real) == [b"b"]
