"""What the client signs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MethodDescriptorType
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka import Producer as KafkaProducer
from tests.deciding import plain_half
from tests.unit.client.producer_playing import Producer, half_producer, store

from checkback.client.kafka.clock import BrokerClock, steady_ms
from checkback.client.kafka.delivery_reports import PolledProducer
from checkback.client.message import Message
from checkback.client.observing.counters import Counters
from checkback.client.sending.half import Half, InDoubtIds
from checkback.client.sending.op_producer import OpProducer
from checkback.protocol.errors import SendError
from checkback.protocol.records import Op
from checkback.security.record_signer import RecordSigner

SIGNER = RecordSigner("account", "secret-of-account", lambda: 1_000)
HEADERS = plain_half("first", "t")


def half() -> Half:
    message = Message("t", b"body", transaction_id="first")
    return Half(message, b"k", list(HEADERS), lambda: "second", 60)


def test_a_half_is_signed_as_it_is_sent() -> None:
    kafka = Producer()
    producer = half_producer(lambda _: kafka, signer=SIGNER)

    store(producer, half())
    producer.close(1)

    [sent] = kafka.sent
    assert (sent["topic"], sent["value"], sent["key"]) == ("half", b"body", b"k")
    assert sent["headers"] == SIGNER.half("half", b"k", b"body", HEADERS)


class Watched(KafkaProducer):
    """What agents derive from the producer: it takes arguments by name, and adds a header."""

    def __init__(self) -> None:
        super().__init__({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
        self.seen: list[str] = []

    def produce(self, *, topic: str, headers: Any, **others: Any) -> None:  # type: ignore[override]
        self.seen.append(topic)
        headers["traceparent"] = "00-1"
        super().produce(topic=topic, headers=headers, **others)


class Wrapped:
    """The method as wrapt wraps it for Datadog's agent: it claims to be librdkafka's own."""

    __class__ = MethodDescriptorType  # type: ignore[assignment]

    def __get__(self, watched: Any, _: object = None) -> Any:
        return partial(Watched.produce, watched)


class Disguised(Watched):
    produce = Wrapped()  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize("agent", [Watched, Disguised])
@pytest.mark.parametrize("signer", [None, SIGNER])
def test_an_agent_around_the_producer_changes_no_signed_record(
    signer: RecordSigner | None, agent: type[Watched]
) -> None:
    """With access control every half was refused after its local transaction had committed.

    Without it, and with traces through Kafka, every send failed where headers came as a list.
    """
    halves, one_way = agent(), agent()
    producer = half_producer(lambda _: halves, signer=signer)
    ops = OpProducer(lambda *_: one_way, lambda: producer.polled, "op", Counters(), signer)

    store(producer, half())
    ops.send_one_way(Op(0, 0, "g", "u", 8))
    stored = ops.send_confirmed(Op(0, 0, "g", "u", 8), 5)
    producer.close(1)
    ops.close(1)

    assert stored
    expected = (["half", "op"], ["op"]) if signer is None else ([], [])
    assert (halves.seen, one_way.seen) == expected


class Guarded:
    """A half producer whose process has a clock that is an hour off, and what it writes."""

    BROKERS_MS = 3_600_000

    def __init__(self, tries_max: int) -> None:
        kafka = Producer(time=(TIMESTAMP_LOG_APPEND_TIME, self.BROKERS_MS))
        self.sent, self.in_doubt, clock = kafka.sent, InDoubtIds(), BrokerClock()
        signer = replace(SIGNER, now_ms=lambda: clock.now_ms(steady_ms(), 0))
        self.producer = half_producer(
            lambda _: kafka, in_doubt=self.in_doubt, clock=clock, tries_max=tries_max, signer=signer
        )

    def store(self) -> Half:
        written = half()
        try:
            store(self.producer, written)
        finally:
            self.producer.close(1)
        return written

    def signed(self) -> list[tuple[str, int]]:
        """The transaction ids that were written, and how far from the brokers' time, in minutes."""
        told = [dict(record["headers"]) for record in self.sent]
        return [
            (
                one["UNIQ_KEY"].decode(),
                round((int(one["Signature"].split()[0]) - self.BROKERS_MS) / 60_000),
            )
            for one in told
        ]


def test_a_half_that_was_signed_by_a_wrong_clock_is_sent_again_by_the_brokers() -> None:
    """The pipeline would refuse it, and the local transaction would have run."""
    world = Guarded(tries_max=2)

    half = world.store()

    assert world.signed() == [("first", -60), ("second", 0)]
    assert half.message.transaction_id == "second"
    assert ["first" in world.in_doubt, "second" in world.in_doubt] == [True, False]


def test_with_no_try_left_its_local_transaction_does_not_run() -> None:
    world = Guarded(tries_max=1)

    with pytest.raises(SendError, match="far from the brokers'") as raised:
        world.store()

    assert raised.value.fields == {"in_doubt": True, "transaction_id": "first"}
    assert "first" in world.in_doubt


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_an_op_is_signed_as_it_is_sent(is_confirmed: bool) -> None:
    kafka: Any = Producer()
    polled = PolledProducer(lambda: kafka, "test")
    opened: Any = lambda *_: kafka  # noqa: E731
    ops = OpProducer(opened, lambda: polled, "op", Counters(), SIGNER)
    op = Op(2, 41, "g", "u", 8)

    if is_confirmed:
        assert ops.send_confirmed(op, 60)
    else:
        ops.send_one_way(op)
    ops.close(1)
    polled.close(1)

    [sent] = kafka.sent
    assert (sent["value"], sent["key"], sent["partition"]) == (b"41", b"u", 2)
    assert sent["headers"] == SIGNER.op("op", 2, b"u", b"41", op.headers())
