"""Many halves under way at once go through a producer that gathers them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.producer_playing import QuietProducer

from checkback.client.kafka.clock import BrokerClock
from checkback.client.kafka.connections import KafkaClients
from checkback.client.kafka.delivery_reports import ThreadReport
from checkback.client.kafka.topics import TopicLeaders
from checkback.client.message import Message
from checkback.client.observing.counters import Counters
from checkback.client.options import ProducerOptions
from checkback.client.sending import half_producer
from checkback.client.sending.half import Half, InDoubtIds
from checkback.client.sending.half_producer import HalfProducer
from checkback.protocol.errors import SendError
from checkback.protocol.records import half_headers

FATAL = KafkaError(KafkaError._FATAL)


class World:
    """A half producer for which two halves at once are many."""

    def __init__(self, opens: Any = None) -> None:
        self.at_once: list[QuietProducer] = []
        self.gathering: list[QuietProducer] = []
        facts: Any = SimpleNamespace(
            topic=lambda _: TopicLeaders({0: 1, 1: 1}, (0, 1), 0.0), refresh=lambda _: None
        )
        self.producer = HalfProducer(
            lambda _: self._opened(self.at_once), "half", facts, InDoubtIds(), Counters(),
            BrokerClock(), budget_ms=5_000, tries_max=3, avoid_faults=False,
            open_gathering=opens or (lambda _: self._opened(self.gathering)),
        )  # fmt: skip

    def _opened(self, producers: list[QuietProducer]) -> Any:
        producers.append(QuietProducer())
        return producers[-1]

    def begin(self) -> Iterator[Any]:
        headers = half_headers(
            producer_group="g", transaction_id="u", real_topic="t", properties={}
        )
        message = Message("t", b"x", transaction_id="u")
        half = Half(message, None, headers, lambda: "v", 5.0)
        tries = self.producer.store(half, ThreadReport)
        self.report, _ = next(tries)
        return tries


def fail(report: Any, tries: Iterator[Any]) -> None:
    """Have every try end with librdkafka's last word."""
    report.error = FATAL
    for following, _ in tries:
        following.error = FATAL


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_producer, "GATHER_FROM_IN_FLIGHT", 2)


def test_one_half_goes_at_once_and_one_of_many_is_gathered() -> None:
    world = World()
    first = world.begin()
    assert (len(world.at_once[0].sent), world.gathering) == (1, [])
    second = world.begin()
    assert (len(world.at_once[0].sent), len(world.gathering[0].sent)) == (1, 1)
    del first, second
    world.begin()
    assert (len(world.at_once[0].sent), len(world.gathering[0].sent)) == (2, 1)

    world.producer.close(1)

    assert (world.at_once[0].is_closed, world.gathering[0].is_closed) == (True, True)


def test_gathered_halves_share_a_partition_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_producer, "SHARED_TURN_S", 3_600.0)
    world = World()
    under_way = [world.begin() for _ in range(5)]
    partitions = [record["partition"] for record in world.gathering[0].sent]
    assert (len(partitions), len(set(partitions))) == (4, 1)
    del under_way
    world.producer.close(1)


def test_few_halves_go_by_turns() -> None:
    world = World()
    for _ in range(3):
        world.begin()
    assert [record["partition"] for record in world.at_once[0].sent] == [0, 1, 0]
    world.producer.close(1)


def test_after_the_shutdown_no_producer_is_opened() -> None:
    world = World()
    first = world.begin()
    world.producer.close(1)
    second = world.begin()
    assert not world.gathering
    del first, second


def test_where_no_thread_is_left_halves_go_at_once() -> None:
    def fails(_: object) -> Any:
        raise RuntimeError("can't start new thread")

    world = World(fails)
    first, second = world.begin(), world.begin()
    assert len(world.at_once[0].sent) == 2
    del first, second
    world.producer.close(1)


def test_a_gathering_producer_that_librdkafka_gave_up_is_replaced_by_another() -> None:
    world = World()
    first, second = world.begin(), world.begin()
    with pytest.raises(SendError):
        fail(world.report, second)
    third = world.begin()
    assert len(world.at_once) == 1
    assert len(world.gathering) > 1
    del first, third
    world.producer.close(1)


def test_only_gathered_halves_wait_for_others() -> None:
    opened: list[dict[str, Any]] = []

    class Noted(KafkaClients):
        def _open_producer(self, on_error: Any, ours: dict[str, Any]) -> Any:
            del on_error
            opened.append(ours)

    clients = Noted("b:1", "c", ProducerOptions())
    clients.half_producer(print)
    clients.gathering_half_producer(print)

    at_once, gathering = opened
    assert (at_once.pop("linger.ms"), gathering.pop("linger.ms")) == (0, 1)
    assert at_once == gathering
