"""The path of a transaction as the client walks it, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kafka.partitioner.default import murmur2
from tests.integration.client.playing import Checkback, Scripted, eventually, header

from checkback.client import (
    ClientEvent,
    LocalTransactionState,
    Message,
    MessageQueue,
    SendStatus,
    TransactionMQProducer,
    TransactionSendResult,
)
from checkback.client.options import ProducerOptions
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import (
    BrokerError,
    InvalidMessageError,
    LifeCycleError,
    NotFoundError,
    SendError,
)
from checkback.protocol.topics import TopicPlan
from checkback.streaming.start.announce import publish_status

THREADS = 48
START_S = ProducerOptions().start_timeout_ms / 1_000
ORDER = Message("paid", b"\x00body", keys="o-1 o-2", tags="t", properties={"a": "b"})


def test_a_half_carries_what_the_pipeline_needs_in_protocol_order(
    checkback: Checkback, listener: Scripted
) -> None:
    result = checkback.producer(listener).send_message_in_transaction(ORDER)

    (half,) = checkback.halves(1)
    assert (half.key, half.value) == (b"o-1", b"\x00body")
    assert [name for name, _ in half.headers[:5]] == list(names.HALF_PROTOCOL_ORDER)
    assert header(half, names.PGROUP) == checkback.group
    assert header(half, names.UNIQ_KEY) == result.transaction_id == result.msg_id
    assert header(half, names.REAL_TOPIC) == "paid"
    assert header(half, names.KEYS) == "o-1 o-2"
    assert header(half, names.TAGS) == "t"
    assert header(half, "a") == "b"
    assert result.send_status is SendStatus.SEND_OK
    assert result.message_queue == MessageQueue(checkback.names.half, half.partition)
    assert result.queue_offset == half.offset


def test_many_threads_share_requests_and_each_knows_its_own_half(
    checkback: Checkback, listener: Scripted
) -> None:
    producer = checkback.producer(listener)
    together = Barrier(THREADS)

    def send(thread: int) -> list[TransactionSendResult]:
        together.wait(60)
        # Every other thread's messages have a key, which chooses the partition.
        key = b"k%d" % thread if thread % 2 else None
        message = Message("paid", b"%d" % thread, key=key)
        return [producer.send_message_in_transaction(message) for _ in range(10)]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(send, range(THREADS)))

    sent = {
        (one.message_queue.queue_id, one.queue_offset): (one.transaction_id, b"%d" % thread)
        for thread, of_thread in enumerate(results)
        for one in of_thread
        if one.message_queue is not None
    }
    found = {
        (half.partition, half.offset): (header(half, names.UNIQ_KEY), half.value)
        for half in checkback.halves(THREADS * 10)
    }
    assert (len(sent), sent) == (THREADS * 10, found)
    assert producer._halves._gathering is not None
    ops = {(op.partition, int(op.value)) for op in checkback.ops(THREADS * 10)}
    assert ops == set(sent)


@pytest.mark.parametrize(
    ("returned", "state", "event"),
    [
        (LocalTransactionState.COMMIT_MESSAGE, "8", ClientEvent.COMMITTED),
        (LocalTransactionState.ROLLBACK_MESSAGE, "12", ClientEvent.ROLLED_BACK),
        (LocalTransactionState.UNKNOW, "0", ClientEvent.UNKNOWN),
        (None, "0", ClientEvent.UNKNOWN),
    ],
)
def test_the_op_says_how_the_local_transaction_ended(
    checkback: Checkback, listener: Scripted, returned: Any, state: str, event: ClientEvent
) -> None:
    listener.execute = lambda *_: returned
    producer = checkback.producer(listener)

    result = producer.send_message_in_transaction(ORDER)

    (op,) = checkback.ops(1)
    (half,) = checkback.halves(1)
    assert (op.partition, int(op.value)) == (half.partition, half.offset)
    assert op.key == result.transaction_id.encode()
    assert [name for name, _ in op.headers] == list(names.OP_PROTOCOL_ORDER)
    assert header(op, names.COMMIT_OR_ROLLBACK) == state
    assert header(op, names.FROM_TRANSACTION_CHECK) == "false"
    assert result.local_transaction_state == int(state)
    assert producer.counters.snapshot()[event] == 1


def test_the_half_is_stored_before_the_local_transaction_runs_and_names_it(
    checkback: Checkback, listener: Scripted
) -> None:
    def look(message: Message, arg: object) -> LocalTransactionState:
        stored.extend(header(half, names.UNIQ_KEY) for half in checkback.halves())
        return LocalTransactionState.COMMIT_MESSAGE

    stored: list[str | None] = []
    listener.execute = look
    result = checkback.producer(listener).send_message_in_transaction(ORDER, arg=["any"])

    ((message, argument),) = listener.executed
    assert argument == ["any"]
    assert (message.body, message.properties) == (ORDER.body, ORDER.properties)
    assert stored == [message.transaction_id] == [result.transaction_id]
    assert ORDER.transaction_id == ""  # the caller's own is left as it was


def half_queues(producer: TransactionMQProducer, messages: Iterable[Message]) -> list[int]:
    results = [producer.send_message_in_transaction(message) for message in messages]
    return [result.message_queue.queue_id for result in results if result.message_queue]


def test_the_key_of_a_half_chooses_as_the_java_client_does(
    checkback: Checkback, listener: Scripted
) -> None:
    keys = [f"o-{number}" for number in range(12)]
    queues = half_queues(
        checkback.producer(listener), [Message("paid", b"x", keys=k) for k in keys]
    )
    assert queues == [(murmur2(key.encode()) & 0x7FFFFFFF) % 4 for key in keys]
    assert len(set(queues)) > 1


def test_a_topic_that_is_not_there_is_said_before_the_local_transaction_runs(
    checkback: Checkback, listener: Scripted, unique: str
) -> None:
    producer = checkback.producer(listener)
    for _ in range(2):
        with pytest.raises(NotFoundError, match=f"{unique}nowhere can't be seen"):
            producer.send_message_in_transaction(Message(f"{unique}nowhere", b"x"))
    assert (listener.executed, checkback.halves()) == ([], [])

    checkback.create(TopicPlan(f"{unique}nowhere", 1))
    producer.send_message_in_transaction(Message(f"{unique}nowhere", b"x"))
    assert len(listener.executed) == 1


def test_a_tombstone_and_bytes_as_a_property_are_sent_and_asked_about_as_they_are(
    checkback: Checkback, listener: Scripted
) -> None:
    listener.execute = lambda *_: LocalTransactionState.UNKNOW
    message = Message("paid", None, keys="o-1", properties={"a": b"\xff\0"})
    checkback.producer(listener).send_message_in_transaction(message)

    (half,) = checkback.halves(1)
    checkback.ask(half)

    assert (half.key, half.value, dict(half.headers)["a"]) == (b"o-1", None, b"\xff\0")
    eventually(lambda: listener.checked)
    assert (listener.checked[0].body, listener.checked[0].properties) == (
        None, message.properties,
    )  # fmt: skip


def test_what_the_real_topic_does_not_take_is_said_before_sending(
    checkback: Checkback, listener: Scripted, unique: str
) -> None:
    topic = f"{unique}small"
    checkback.create(TopicPlan(topic, 1, {"max.message.bytes": "2000"}))
    producer = checkback.producer(listener)

    with pytest.raises(InvalidMessageError, match=r"at most 2000 \(max.message.bytes\)"):
        producer.send_message_in_transaction(Message(topic, b"x" * 2_000))
    assert checkback.halves() == []
    assert listener.executed == []


def test_a_wrong_prefix_is_said_and_leaves_no_check_topic(
    checkback: Checkback, listener: Scripted
) -> None:
    wrong = f"x{checkback.prefix}"

    with pytest.raises(BrokerError, match="Check topic_prefix: there are topics of the prefix"):
        checkback.producer(listener, topic_prefix=wrong)

    admin = AdminClient({"bootstrap.servers": checkback.bootstrap_servers})
    assert [name for name in admin.list_topics().topics if name.startswith(wrong)] == []


def test_shut_down_it_takes_no_message(checkback: Checkback, listener: Scripted) -> None:
    producer = checkback.producer(listener)

    assert producer.shutdown() == 0
    assert producer.shutdown() == 0
    with pytest.raises(LifeCycleError, match="shut down"):
        producer.send_message_in_transaction(ORDER)
    with pytest.raises(LifeCycleError, match="shut down"):
        producer.start()


def test_shutdown_sends_the_ops_that_wait(checkback: Checkback, listener: Scripted) -> None:
    producer = checkback.producer(listener)
    for _ in range(50):
        producer.send_message_in_transaction(ORDER)
    producer.shutdown()

    assert len(checkback.ops()) == 50


def test_a_pipeline_that_refuses_transactions_is_heard_before_the_local_transaction(
    checkback: Checkback, listener: Scripted
) -> None:
    connection = {"bootstrap.servers": checkback.bootstrap_servers}

    def start_pipeline(*, rejects: bool) -> None:
        settings = Settings(topic_prefix=checkback.prefix, reject_transactions=rejects)
        assert publish_status(settings, connection, 1)

    start_pipeline(rejects=True)
    producer = checkback.producer(listener)
    with pytest.raises(SendError) as raised:
        producer.send_message_in_transaction(Message("paid", b"a"))
    assert raised.value.fields == {"in_doubt": False, "code": "NO_PERMISSION"}
    assert listener.executed == []
    assert checkback.read(checkback.names.half) == []

    start_pipeline(rejects=False)
    eventually(lambda: is_sent(producer))
    assert len(listener.executed) == 1


def test_a_transaction_on_the_status_topic_hides_no_status_and_delays_no_start(
    checkback: Checkback, listener: Scripted
) -> None:
    connection = {"bootstrap.servers": checkback.bootstrap_servers}
    stranger = Producer({**connection, "transactional.id": f"{checkback.prefix}stranger"})
    stranger.init_transactions(30)
    for is_kept_open in (False, True):
        stranger.begin_transaction()
        stranger.produce(checkback.names.status, b"hello", b"status", 0)
        assert stranger.flush(30) == 0
        if not is_kept_open:
            stranger.commit_transaction(30)
    settings = Settings(topic_prefix=checkback.prefix, reject_transactions=True)
    assert publish_status(settings, connection, 1)
    began_s = time.monotonic()

    producer = checkback.producer(listener)

    assert time.monotonic() - began_s < START_S
    with pytest.raises(SendError, match="reject_transactions"):
        producer.send_message_in_transaction(Message("paid", b"a"))


def is_sent(producer: TransactionMQProducer) -> bool:
    try:
        producer.send_message_in_transaction(Message("paid", b"a"))
    except SendError:
        return False
    return True
