"""Leaders that move and replicas that are missing, on three brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from tests.integration.client.playing import Checkback, Scripted, eventually, header

from checkback.client import (
    DefaultMQProducer,
    Message,
    SendStatus,
    TransactionMQProducer,
    TransactionSendResult,
)
from checkback.client.observing.counters import ClientEvent
from checkback.deploy.broker import EmbeddedCluster
from checkback.protocol import properties as names
from checkback.protocol.errors import SendError

pytestmark = pytest.mark.nightly  # by day tests/unit/client/test_half_producer.py has such brokers

ORDER = Message("paid", b"body")  # without a key: any partition may take it
PROPERTIES = {"replica.lag.time.max.ms": "1500"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        tmp_path_factory.mktemp("cluster"), properties=PROPERTIES, heap_mb=256
    ) as running:
        yield running


@pytest.fixture
def spread(cluster: EmbeddedCluster, unique: str) -> Iterator[Checkback]:
    """Half partition n is led by broker n+1 and followed by the next; both must have it."""
    made = Checkback(cluster.bootstrap_servers, unique)
    made.create_topics(
        num_partitions=-1,
        assignments={0: [1, 2], 1: [2, 3], 2: [3, 1]},
        configs={"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"},
    )
    yield made
    for producer in made.started:
        producer.shutdown()


def leaders(cluster: EmbeddedCluster, topic: str) -> set[int]:
    """Ask a broker that lives which brokers lead; none while it still names a dead one."""
    admin: Any = KafkaAdminClient(bootstrap_servers=cluster.broker(3).bootstrap_servers)
    try:
        (described,) = admin.describe_topics([topic])
    except KafkaError:
        return set()
    finally:
        admin.close()
    return {one["leader_id"] for one in described["partitions"]}


def test_with_too_few_replicas_a_half_goes_elsewhere_once(
    spread: Checkback, listener: Scripted, cluster: EmbeddedCluster
) -> None:
    producer = spread.producer(listener)
    cluster.broker(1).kill()
    try:
        eventually(lambda: leaders(cluster, spread.names.half) == {2, 3})
        results = [producer.send_message_in_transaction(ORDER) for _ in range(6)]
    finally:
        cluster.broker(1).restart()

    assert {result.send_status for result in results} == {SendStatus.SEND_OK}
    # Partitions 0 and 2 have one replica left of the two that they need.
    assert {result.message_queue.queue_id for result in results if result.message_queue} == {1}
    assert producer.counters.snapshot()[ClientEvent.SEND_RETRIED] > 0
    ids = [header(half, names.UNIQ_KEY) for half in spread.halves(6)]
    assert sorted(ids, key=str) == sorted(result.transaction_id for result in results)


def test_a_half_that_only_the_leader_has_is_rolled_back_and_its_transaction_not_run(
    spread: Checkback, listener: Scripted, cluster: EmbeddedCluster
) -> None:
    """The follower of partition 1 stops before it has copied the half."""
    producer = spread.producer(listener, send_msg_timeout_ms=6_000)
    for _ in range(4):
        producer.send_message_in_transaction(ORDER)
    cluster.broker(3).pause()
    try:
        # The half for partition 1 is the second of a round of three.
        results = [send_or_fail(producer) for _ in range(2)]
    finally:
        cluster.broker(3).resume()

    # Its sender was told of a doubt, or it went elsewhere under another id: the leader has it.
    unsafe = eventually(lambda: unheard(spread, listener))
    assert None in results or producer.counters.snapshot()[ClientEvent.SEND_RETRIED]
    for half in unsafe:
        spread.ask(half)
    ids = {header(half, names.UNIQ_KEY) for half in unsafe}
    eventually(lambda: ids <= {op.key.decode() for op in spread.ops()})
    answers = [op for op in spread.ops() if op.key.decode() in ids]
    assert {header(op, names.COMMIT_OR_ROLLBACK) for op in answers} == {"12"}
    assert listener.checked == []


def unheard(checkback: Checkback, listener: Scripted) -> list[Any]:
    """Return the halves whose local transactions did not run."""
    ran = {message.transaction_id for message, _ in listener.executed}
    return [half for half in checkback.halves() if header(half, names.UNIQ_KEY) not in ran]


def send_or_fail(producer: TransactionMQProducer) -> TransactionSendResult | None:
    try:
        return producer.send_message_in_transaction(ORDER)
    except SendError:
        return None


def test_leaders_that_move_lose_and_double_nothing(
    cluster: EmbeddedCluster, listener: Scripted, unique: str
) -> None:
    checkback = Checkback(cluster.bootstrap_servers, unique)
    checkback.create_topics(replication_factor=3)
    producer = checkback.producer(listener, send_msg_timeout_ms=6_000)
    stored: list[str] = []
    doubtful: list[SendError] = []
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            try:
                stored.append(producer.send_message_in_transaction(ORDER).transaction_id)
            except SendError as error:
                doubtful.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(stored) > 50)
    cluster.broker(2).stop()
    before = len(stored)
    eventually(lambda: len(stored) > before + 50, 30)
    stop.set()
    for thread in threads:
        thread.join()
    cluster.broker(2).restart()

    ids = [header(half, names.UNIQ_KEY) for half in checkback.halves(len(stored))]
    assert len(ids) == len(set(ids))
    assert set(stored) <= set(ids)
    # A half that no `send` returned is in doubt: its `send` raised that, or tried with another id.
    retried = producer.counters.snapshot()[ClientEvent.SEND_RETRIED]
    assert len(set(ids) - set(stored)) <= len(doubtful) + retried
    producer.shutdown()


def test_plain_sends_go_round_a_dead_leader(cluster: EmbeddedCluster, unique: str) -> None:
    checkback = Checkback(cluster.bootstrap_servers, unique)
    checkback.create_topics(num_partitions=-1, assignments={0: [1], 1: [2], 2: [3]})
    topic = f"{unique}plain"
    admin: Any = KafkaAdminClient(**checkback.connection)
    options = {"num_partitions": -1, "assignments": {0: [1], 1: [2], 2: [3]}}
    admin.create_topics({topic: options}, wait_for_metadata=True)
    admin.close()
    with DefaultMQProducer(
        "plain", bootstrap_servers=checkback.bootstrap_servers, send_latency_fault_enable=True
    ) as producer:
        producer.send(Message(topic, b"warm"))
        cluster.broker(3).kill()
        try:
            results = [producer.send(Message(topic, b"x")) for _ in range(6)]
        finally:
            cluster.broker(3).restart()
    assert {result.message_queue.queue_id for result in results if result.message_queue} <= {0, 1}
    assert len(results) == 6
