"""Faults made for real, on one broker that stops, dies and slows down."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.bad_records import set_topic_config
from tests.integration.client.playing import Checkback, Scripted, eventually, header

from checkback.client import (
    DefaultMQProducer,
    LocalTransactionState,
    Message,
    SendResult,
    SendStatus,
    TransactionMQProducer,
    TransactionSendResult,
)
from checkback.client.observing.counters import ClientEvent
from checkback.deploy.broker import QUICK_START, EmbeddedBroker
from checkback.protocol import properties as names
from checkback.protocol.errors import BrokerError, SendError
from checkback.protocol.topics import TopicPlan

ORDER = Message("paid", b"body", keys="o-1")
BUDGET_MS = 4_000
"""Short, for the tests that see it used up, and long enough for a broker on a busy machine."""
MANY = 48
"""Threads whose halves are gathered."""
STORED_LATE_MS = 1_500
"""So short that the request still stands in the broker's socket when it wakes."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("faults")
    with EmbeddedBroker(folder, heap_mb=384, jvm_options=QUICK_START) as running:
        yield running


@pytest.fixture
def bootstrap_servers(own_broker: EmbeddedBroker) -> str:
    """The broker of this module: what a test does to it no other test may see."""
    return own_broker.bootstrap_servers


def test_a_broker_stopped_between_half_and_op_changes_no_result(
    checkback: Checkback, listener: Scripted, own_broker: EmbeddedBroker
) -> None:
    def stop(*_: Any) -> LocalTransactionState:
        own_broker.kill()
        return LocalTransactionState.COMMIT_MESSAGE

    producer = checkback.producer(listener, send_msg_timeout_ms=BUDGET_MS)
    listener.execute = stop
    result = producer.send_message_in_transaction(ORDER)

    assert result.send_status is SendStatus.SEND_OK
    assert result.local_transaction_state is LocalTransactionState.COMMIT_MESSAGE
    eventually(lambda: producer.counters.snapshot()[ClientEvent.OP_FAILED] == 1)

    own_broker.restart()
    assert checkback.ops() == []
    checkback.ask(checkback.halves(1)[0])
    (answer,) = checkback.ops(1)
    assert header(answer, names.FROM_TRANSACTION_CHECK) == "true"
    assert header(answer, names.COMMIT_OR_ROLLBACK) == "8"


def test_without_a_broker_the_local_transaction_does_not_run(
    checkback: Checkback, listener: Scripted, own_broker: EmbeddedBroker
) -> None:
    producer = checkback.producer(listener, send_msg_timeout_ms=BUDGET_MS)
    producer.send_message_in_transaction(ORDER)
    own_broker.kill()
    try:
        started_s = time.monotonic()
        with pytest.raises(SendError, match="did not run"):
            producer.send_message_in_transaction(ORDER)
        assert time.monotonic() - started_s < 3 * BUDGET_MS / 1000
    finally:
        own_broker.restart()
    assert len(listener.executed) == 1

    assert producer.send_message_in_transaction(ORDER).send_status is SendStatus.SEND_OK
    eventually(lambda: len(checkback.halves(2)) == 2)


def test_a_broker_slower_than_the_budget_leaves_a_doubt_and_no_second_half(
    checkback: Checkback, listener: Scripted, own_broker: EmbeddedBroker
) -> None:
    producer = checkback.producer(listener, send_msg_timeout_ms=STORED_LATE_MS)
    first = producer.send_message_in_transaction(ORDER)
    own_broker.pause()
    try:
        with pytest.raises(SendError) as failure:
            producer.send_message_in_transaction(ORDER)
    finally:
        own_broker.resume()

    assert failure.value.fields["in_doubt"] is True
    assert producer.counters.snapshot()[ClientEvent.SEND_IN_DOUBT] == 1
    assert len(listener.executed) == 1
    after = [producer.send_message_in_transaction(ORDER) for _ in range(8)]
    ids = [header(half, names.UNIQ_KEY) for half in checkback.halves(9)]
    assert len(ids) == len(set(ids))
    assert {result.transaction_id for result in after} <= set(ids)
    (doubtful,) = set(ids) - {result.transaction_id for result in [first, *after]}
    assert producer.counters.snapshot()[ClientEvent.SEND_IN_DOUBT] == 1

    # Asked for it, the producer rolls it back without asking the listener, which never saw it.
    (half,) = [one for one in checkback.halves() if header(one, names.UNIQ_KEY) == doubtful]
    checkback.ask(half)
    rollback = eventually(lambda: [op for op in checkback.ops() if op.key.decode() == doubtful])[0]
    assert listener.checked == []
    eventually(lambda: producer.counters.snapshot()[ClientEvent.DOUBT_SETTLED] == 1)
    assert header(rollback, names.COMMIT_OR_ROLLBACK) == "12"
    assert (rollback.partition, int(rollback.value)) == (half.partition, half.offset)


def test_halves_of_many_threads_are_stored_once_while_a_broker_sleeps_and_dies(
    checkback: Checkback, listener: Scripted, own_broker: EmbeddedBroker
) -> None:
    producer = checkback.producer(listener, send_msg_timeout_ms=STORED_LATE_MS)
    stopping = threading.Event()
    results: list[TransactionSendResult] = []
    longest_s: list[float] = []

    def send() -> None:
        while not stopping.is_set():
            started_s = time.monotonic()
            try:
                results.append(producer.send_message_in_transaction(ORDER))
            except SendError:
                stopping.wait(0.05)  # a broker that is down refuses at once
            longest_s.append(time.monotonic() - started_s)

    threads = [threading.Thread(target=send) for _ in range(MANY)]
    for thread in threads:
        thread.start()
    eventually(lambda: producer._halves._gathering is not None)
    own_broker.pause()
    time.sleep(1.5 * STORED_LATE_MS / 1000)
    own_broker.resume()
    before = len(results)
    eventually(lambda: len(results) > before + MANY)
    own_broker.kill()
    own_broker.restart()
    before = len(results)
    eventually(lambda: len(results) > before + MANY)
    stopping.set()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert max(longest_s) < 4 * STORED_LATE_MS / 1000
    halves = {}
    for half in checkback.halves(len(results)):
        assert header(half, names.UNIQ_KEY) not in halves
        halves[header(half, names.UNIQ_KEY)] = (half.partition, half.offset)
    for one in results:
        assert one.message_queue is not None
        assert halves.pop(one.transaction_id) == (one.message_queue.queue_id, one.queue_offset)
    # A half that no result names is in doubt, and no local transaction ran for it.
    assert all(name in producer._halves._in_doubt for name in halves)
    assert len(listener.executed) == len(results)


def test_a_broker_that_is_slow_within_the_budget_is_waited_for(
    checkback: Checkback, listener: Scripted, own_broker: EmbeddedBroker
) -> None:
    producer = checkback.producer(listener)
    producer.send_message_in_transaction(ORDER)
    own_broker.pause()
    threading.Timer(0.7, own_broker.resume).start()

    result = producer.send_message_in_transaction(ORDER)

    assert result.send_status is SendStatus.SEND_OK
    assert len(checkback.halves(2)) == 2


def test_one_half_that_the_broker_refuses_does_not_break_the_others(
    checkback: Checkback, listener: Scripted, unique: str
) -> None:
    producer = checkback.producer(listener)
    producer.send_message_in_transaction(ORDER)
    limit = {"max_message_bytes": "2000"}
    set_topic_config(
        {"bootstrap.servers": checkback.bootstrap_servers}, checkback.names.half, **limit
    )

    with pytest.raises(SendError) as failure:
        send_until_refused(producer, Message("paid", b"x" * 5_000))

    assert failure.value.fields["in_doubt"] is False
    assert producer.send_message_in_transaction(ORDER).send_status is SendStatus.SEND_OK
    stored = len(listener.executed)
    assert len(checkback.halves(stored)) == stored


def send_until_refused(producer: TransactionMQProducer, message: Message) -> None:
    for _ in range(1_000):  # the broker answers before every log has heard of its limit
        producer.send_message_in_transaction(message)


def test_a_full_buffer_refuses_and_lets_go_when_the_broker_is_back(
    checkback: Checkback, own_broker: EmbeddedBroker, unique: str
) -> None:
    topic = f"{unique}plain"
    checkback.create(TopicPlan(topic, 2))
    with DefaultMQProducer(
        "plain", bootstrap_servers=checkback.bootstrap_servers, async_sends_max=3
    ) as producer:
        producer.send(Message(topic, b"first"))
        own_broker.pause()
        try:
            waiting = [producer.send_async(Message(topic, b"x")) for _ in range(3)]
            with pytest.raises(SendError, match="async_sends_max"):
                producer.send_async(Message(topic, b"too much"))
        finally:
            own_broker.resume()
        results: list[SendResult] = [one.result(60) for one in waiting]
        assert {result.send_status for result in results} == {SendStatus.SEND_OK}
        assert producer.send(Message(topic, b"room again")).send_status is SendStatus.SEND_OK


def test_a_plain_send_keeps_to_its_budget(
    checkback: Checkback, own_broker: EmbeddedBroker, unique: str
) -> None:
    topic = f"{unique}plain"
    checkback.create(TopicPlan(topic, 2))
    with DefaultMQProducer(
        "plain", bootstrap_servers=checkback.bootstrap_servers, send_msg_timeout_ms=500
    ) as producer:
        producer.send(Message(topic, b"first"))
        own_broker.pause()
        try:
            started_s = time.monotonic()
            with pytest.raises(SendError) as failure:
                producer.send(Message(topic, b"x"))
            with pytest.raises(SendError):
                producer.send_async(Message(topic, b"x")).result(60)
            assert time.monotonic() - started_s < 5  # of two sends; by default each has 3 s
        finally:
            own_broker.resume()
    assert failure.value.fields["in_doubt"] is True


def test_start_without_topics_says_what_to_do(
    bootstrap_servers: str, unique: str, listener: Scripted
) -> None:
    bare = Checkback(bootstrap_servers, f"{unique}none-")
    with pytest.raises(BrokerError, match="checkback topics create"):
        bare.producer(listener, send_msg_timeout_ms=500)
