"""The tries of a half: where each goes, under which id, and what is certain in the end."""

from __future__ import annotations

import queue
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tests.deciding import plain_half
from tests.unit.client.producer_playing import QuietProducer, half_producer, store, stored

from checkback.client.kafka.delivery_reports import ThreadReport
from checkback.client.kafka.topics import TopicFacts
from checkback.client.message import Message
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.results import SendStatus
from checkback.client.sending import half_producer as half_producer_module
from checkback.client.sending.half import Half, InDoubtIds
from checkback.client.sending.half_producer import AwaitReport
from checkback.client.sessions.sent import SharedReport
from checkback.protocol.errors import SendError

TOO_FEW = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
AWAY = "nothing yet, and the broker's connection breaks"


class Kafka(QuietProducer):
    """A producer that answers each record as it was told to, in the poll after it."""

    def __init__(self, *answers: object) -> None:
        super().__init__()
        self.answers = list(answers)
        self.tried: list[tuple[int, str]] = []
        self.waiting: queue.Queue[tuple[Any, KafkaError | None, Any]] = queue.Queue()
        self.on_error: Any = None
        self.opened = 0
        self.open_error: Exception | None = None

    def open(self, on_error: Any) -> Any:
        if self.open_error is not None:
            raise self.open_error
        self.on_error = on_error
        self.opened += 1
        return self

    def produce(self, **record: Any) -> None:
        topic, partition, on_delivery = (
            record[name] for name in ("topic", "partition", "on_delivery")
        )
        self.tried.append((partition, dict(record["headers"])["UNIQ_KEY"].decode()))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is AWAY:  # a KafkaError can not be compared with a text
            self.on_error(KafkaError(KafkaError._TRANSPORT, f"h:1/{partition + 1}: refused"))
            return
        error = answer if isinstance(answer, KafkaError) else None
        self.waiting.put((on_delivery, error, stored(topic, partition, 40 + partition)))

    def poll(self, timeout_s: float) -> None:
        with suppress(queue.Empty):
            report, error, message = self.waiting.get(timeout=timeout_s or 0.001)
            report(error, message)


class World:
    """A half producer over three partitions, led by the brokers 1, 2 and 3."""

    def __init__(self, *answers: object, budget_ms: int = 5_000, tries_max: int = 3) -> None:
        self.kafka = Kafka(*answers)
        self.in_doubt = InDoubtIds()
        self.counters = Counters()
        self.ids = (f"id-{number}" for number in range(9))
        self.producer = half_producer(
            self.kafka.open, leaders=(1, 2, 3), in_doubt=self.in_doubt, counters=self.counters,
            budget_ms=budget_ms, tries_max=tries_max,
        )  # fmt: skip
        self.budget_s = budget_ms / 1000

    def half(self, key: bytes | None = None) -> Half:
        first = next(self.ids)
        message = Message("t", b"x", transaction_id=first)
        return Half(message, key, plain_half(first, "t"), lambda: next(self.ids), self.budget_s)

    def store(self, key: bytes | None = None) -> Half:
        half = self.half(key)
        store(self.producer, half)
        return half


def test_a_stored_half_knows_where_it_is() -> None:
    world = World()
    halves = [world.store() for _ in range(3)]
    assert [(half.partition, half.offset) for half in halves] == [(0, 40), (1, 41), (2, 42)]
    assert not any(half.transaction_id in world.in_doubt for half in halves)


class ManyHalves(World):
    """A world in which a second half under way is gathered, by a producer of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: object) -> None:
        super().__init__()
        monkeypatch.setattr(half_producer_module, "GATHER_FROM", 2)
        monkeypatch.setattr(half_producer_module, "SHARED_TURN_S", 3_600.0)
        self.gathering = Kafka(*answers)
        self.producer = half_producer(
            self.kafka.open, leaders=(1, 2, 3), in_doubt=self.in_doubt, counters=self.counters,
            tries_max=3, open_gathering=self.gathering.open,
        )  # fmt: skip
        self.first = self.begin(ThreadReport)

    def begin(self, report: Any) -> Generator[AwaitReport, None, None]:
        tries = self.producer.store(self.half(), report)
        next(tries)
        return tries


def test_halves_of_many_threads_are_gathered_on_one_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ManyHalves(monkeypatch)
    assert world.gathering.opened == 0
    halves = [world.store() for _ in range(4)]
    assert len({half.partition for half in halves}) == 1
    assert (world.gathering.opened, len(world.gathering.tried), len(world.kafka.tried)) == (1, 4, 1)
    world.first.close()
    assert [world.store().partition for _ in range(2)] == [1, 2]
    assert (len(world.gathering.tried), len(world.kafka.tried)) == (4, 3)
    world.producer.close(1)
    assert (world.kafka.is_closed, world.gathering.is_closed) == (True, True)


def test_halves_of_a_database_transaction_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ManyHalves(monkeypatch)
    under_way = [world.begin(SharedReport) for _ in range(3)]
    assert (world.gathering.opened, len(world.kafka.tried)) == (0, 4)
    del under_way
    world.producer.close(1)


def test_a_gathering_producer_that_librdkafka_gave_up_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ManyHalves(monkeypatch, KafkaError(KafkaError._FATAL))
    others = world.kafka.opened
    world.store()
    assert (world.gathering.opened, world.kafka.opened) == (2, others)
    world.producer.close(1)


def test_where_no_thread_is_left_halves_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ManyHalves(monkeypatch)
    world.gathering.open_error = RuntimeError("can't start new thread")
    world.store()
    assert (len(world.gathering.tried), len(world.kafka.tried)) == (0, 2)
    world.producer.close(1)


def test_after_the_shutdown_no_producer_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ManyHalves(monkeypatch)
    world.producer.close(1)
    with suppress(SendError):
        world.begin(ThreadReport)
    assert world.gathering.opened == 0


def test_too_few_replicas_send_it_elsewhere_under_another_id() -> None:
    world = World(TOO_FEW, TOO_FEW)
    half = world.store()
    assert sorted(partition for partition, _ in world.kafka.tried) == [0, 1, 2]
    assert [name for _, name in world.kafka.tried] == ["id-0", "id-1", "id-2"]
    assert half.message.transaction_id == "id-2"
    assert [f"id-{number}" in world.in_doubt for number in range(3)] == [True, True, False]
    assert world.counters.snapshot()[ClientEvent.SEND_RETRIED] == 2


def test_no_id_is_written_twice_whatever_happens() -> None:
    for answers in ([TOO_FEW] * 3, [AWAY, TOO_FEW], [TOO_FEW, AWAY, None]):
        world = World(*answers, budget_ms=500)
        with suppress(SendError):
            world.store()
        ids = [one for _, one in world.kafka.tried]
        assert len(ids) == len(set(ids))


def test_a_partition_short_of_replicas_is_left_alone_for_a_while() -> None:
    world = World(TOO_FEW)
    world.store()
    assert 0 not in {world.store().partition for _ in range(6)}


def test_a_half_with_a_key_stays_on_its_partition_and_ends_in_doubt() -> None:
    world = World(TOO_FEW)
    with pytest.raises(SendError) as failure:
        world.store(key=b"k")
    assert failure.value.fields == {"in_doubt": True, "transaction_id": "id-0"}
    assert "id-0" in world.in_doubt
    assert [partition for partition, _ in world.kafka.tried] == [-1]


def test_a_refusal_is_certain_and_not_tried_again() -> None:
    world = World(TOO_LARGE)
    with pytest.raises(SendError, match="did not run") as failure:
        world.store()
    assert failure.value.fields["in_doubt"] is False
    assert len(world.kafka.tried) == 1
    assert "id-0" not in world.in_doubt


def test_a_broker_that_is_away_is_left_before_the_time_is_over() -> None:
    world = World(AWAY, budget_ms=1_000)
    half = world.store()
    assert half.partition != 0
    assert "id-0" in world.in_doubt
    assert 0 not in {world.store().partition for _ in range(6)}


def test_with_no_time_left_nobody_knows() -> None:
    world = World(AWAY, tries_max=1, budget_ms=50)
    with pytest.raises(SendError, match="no answer in time") as failure:
        world.store()
    assert failure.value.fields["in_doubt"] is True
    assert world.counters.snapshot()[ClientEvent.SEND_IN_DOUBT] == 1


def test_what_only_the_leader_has_is_a_status_and_a_doubt() -> None:
    world = World(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    half = world.store()
    assert (half.status, half.offset) == (SendStatus.SLAVE_NOT_AVAILABLE, -1)
    assert "id-0" in world.in_doubt


@pytest.mark.parametrize("error", [BufferError("queue full"), RuntimeError("closed")])
def test_what_librdkafka_did_not_take_is_certain(error: Exception) -> None:
    world = World(error)
    with pytest.raises(SendError) as failure:
        world.store()
    assert failure.value.fields["in_doubt"] is False


def test_a_producer_that_librdkafka_gave_up_is_replaced() -> None:
    world = World(KafkaException(KafkaError(KafkaError._FATAL)))
    world.store()
    assert world.kafka.opened == 2


def test_after_the_shutdown_none_is_opened_in_place_of_one_that_librdkafka_gave_up() -> None:
    world = World(KafkaException(KafkaError(KafkaError._FATAL)), budget_ms=200)
    world.producer.close(1)
    with suppress(SendError):
        world.store()
    assert world.kafka.opened == 1


def test_facts_are_asked_for_by_name() -> None:
    """The stand-in of these tests has what the real one has."""
    assert {"topic", "refresh"} <= set(dir(TopicFacts))
