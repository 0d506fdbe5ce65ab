"""Who waits for librdkafka's reports: threads, coroutines, and nobody for ops."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.producer_playing import Producer, in_a_loop, stored

from checkback.client.asyncio_producer import EventLoopReports
from checkback.client.kafka.delivery_reports import PolledProducer, ThreadReport
from checkback.client.kafka.own_topics import require_half_and_op
from checkback.client.listener import LocalTransactionState
from checkback.client.observing.counters import ClientEvent, Counters
from checkback.client.sending.op_producer import OpProducer
from checkback.protocol.errors import BrokerError, NotFoundError
from checkback.protocol.records import Op
from checkback.protocol.topics import TopicNames

STORED = stored()
COMMIT = LocalTransactionState.COMMIT_MESSAGE


def send(polled: PolledProducer) -> ThreadReport:
    report = ThreadReport(polled.done)
    polled.producer.produce(topic="t", value=b"x", partition=0, on_delivery=report)
    return report


def test_a_thread_whose_time_is_over_goes_on_without_a_report() -> None:
    polled = PolledProducer(lambda: Producer(is_silent=True), "test")
    report = send(polled)
    report.wait(0.01)
    assert report.message is None
    assert polled.close(0) == 1


def test_closing_says_how_many_it_gave_up_and_wakes_those_who_wait() -> None:
    producer = Producer(is_silent=True)
    polled = PolledProducer(lambda: producer, "test")
    report = send(polled)
    waiting = threading.Thread(target=report.wait, args=(30,))
    waiting.start()
    assert polled.close(0.02) == 1
    waiting.join(60)
    assert not waiting.is_alive()
    assert (producer.is_purged, producer.is_closed) == (True, True)


@in_a_loop
async def test_reports_of_several_threads_all_arrive() -> None:
    loop_reports = EventLoopReports(asyncio.get_running_loop())
    done: deque[Any] = deque()
    reports = [loop_reports.report(done) for _ in range(4_000)]
    waits = [asyncio.ensure_future(report.wait(60)) for report in reports]
    await asyncio.sleep(0)

    def wake(first: int) -> None:
        for report in reports[first::4]:
            report.wake()

    await asyncio.gather(*(asyncio.to_thread(wake, first) for first in range(4)))
    await asyncio.wait_for(asyncio.gather(*waits), 30)


@in_a_loop
async def test_coroutines_are_woken_by_one_call_into_their_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop_reports = EventLoopReports(asyncio.get_running_loop())
    done: deque[Any] = deque()
    reports = [loop_reports.report(done) for _ in range(5)]
    waits = [asyncio.ensure_future(report.wait(60)) for report in reports]
    await asyncio.sleep(0)
    calls = 0
    call = loop_reports.loop.call_soon_threadsafe

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return call(*arguments)

    monkeypatch.setattr(loop_reports.loop, "call_soon_threadsafe", counted)
    for report in reports:
        report(None, STORED)
        report.wake()
    await asyncio.gather(*waits)
    assert calls == 1


@in_a_loop
async def test_a_coroutine_may_wait_a_second_time() -> None:
    loop_reports = EventLoopReports(asyncio.get_running_loop())
    report = loop_reports.report(deque())
    await report.wait(0.001)
    assert report.message is None
    report(None, STORED)
    loop_reports.loop.call_later(0.001, report.wake)
    await report.wait(60)
    assert report.message is STORED


@pytest.mark.parametrize("error", [None, KafkaError(KafkaError._MSG_TIMED_OUT)])
def test_an_answer_to_a_check_is_confirmed(error: KafkaError | None) -> None:
    confirming, one_way, counters = Producer(), Producer(), Counters()
    confirming.error = error
    polled = PolledProducer(lambda: confirming, "test")
    open_producer: Any = lambda *_: one_way  # noqa: E731
    ops = OpProducer(open_producer, lambda: polled, "op", counters)
    assert ops.send_confirmed(Op(2, 41, "g", "id", 8), 10) is (error is None)
    assert counters.snapshot()[ClientEvent.OP_FAILED] == (0 if error is None else 1)


def test_half_and_op_topic_have_as_many_partitions() -> None:
    names = TopicNames("p-")
    counts = {names.half: 4, names.op: 3}
    facts: Any = SimpleNamespace(
        topic=lambda name: SimpleNamespace(leaders=dict.fromkeys(range(counts[name])))
    )
    with pytest.raises(BrokerError, match=r"has 4 partitions and .* has 3"):
        require_half_and_op(facts, names)
    counts[names.op] = 4
    require_half_and_op(facts, names)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ([], r"Run `checkback topics create`, and check topic_prefix\.$"),
        (["paid", "", "shop-"], r"there are topics of the prefix '', 'shop-'\. For a new one"),
        ([str(number) for number in range(7)], r"'0', '1', '2', '3', '4' and others\."),
    ],
)
def test_a_wrong_prefix_is_told_with_those_that_are_there(there: list[str], told: str) -> None:
    known = {name if name == "paid" else TopicNames(name).half: None for name in there}

    def missing(name: str) -> None:
        raise NotFoundError(f"The topic {name} can't be seen: it does not exist.")

    admin = SimpleNamespace(list_topics=lambda **_: SimpleNamespace(topics=known))
    facts: Any = SimpleNamespace(topic=missing, admin=admin)

    with pytest.raises(BrokerError, match=told) as refusal:
        require_half_and_op(facts, TopicNames("p-"))
    assert "The topic p-RMQ_SYS_TRANS_HALF_TOPIC" in str(refusal.value)
