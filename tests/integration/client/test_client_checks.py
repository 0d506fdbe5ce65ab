"""Checks: any live process of the group answers, and no request is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from tests.integration.client.playing import Checkback, Scripted, eventually, header

from checkback.checkpoints.pending.pending_halves import PendingGroup
from checkback.client import LocalTransactionState, Message, MessageExt, TransactionMQProducer
from checkback.client.kafka import connections as kafka_clients
from checkback.client.observing.counters import ClientEvent
from checkback.operations.doctor.doctor import Doctor
from checkback.operations.transactions.pending import half_reader
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.topics import TopicPlan
from checkback.streaming.reports.group_members import live_members

ORDER = Message("paid", b"body", keys="o-1", tags="t", properties={"a": "b"}, queue_id=3)


def unanswered(message: Message, arg: object) -> LocalTransactionState:
    return LocalTransactionState.UNKNOW


def left_open(
    checkback: Checkback, listener: Scripted, **options: Any
) -> tuple[TransactionMQProducer, Any]:
    """Return a producer that has sent ORDER and left its transaction open, and the half."""
    listener.execute = unanswered
    producer = checkback.producer(listener, **options)
    producer.send_message_in_transaction(ORDER)
    (half,) = checkback.halves(1)
    return producer, half


def test_an_answer_is_an_op_from_a_check(checkback: Checkback, listener: Scripted) -> None:
    producer, half = left_open(checkback, listener)

    checkback.ask(half, times=2)

    _, answer = checkback.ops(2)
    assert (answer.partition, int(answer.value)) == (half.partition, half.offset)
    assert header(answer, names.COMMIT_OR_ROLLBACK) == "8"
    assert header(answer, names.FROM_TRANSACTION_CHECK) == "true"
    assert header(answer, names.UNIQ_KEY) == header(half, names.UNIQ_KEY)
    eventually(lambda: producer.counters.snapshot()[ClientEvent.CHECK_ANSWERED] == 1)


def test_the_listener_gets_the_message_as_it_was_sent(
    checkback: Checkback, listener: Scripted
) -> None:
    _, half = left_open(checkback, listener)

    checkback.ask(half, times=2)

    eventually(lambda: listener.checked)
    asked = listener.checked[0]
    assert (asked.topic, asked.body, asked.keys, asked.tags) == ("paid", b"body", "o-1", "t")
    assert (asked.properties, asked.queue_id, asked.key) == ({"a": "b"}, 3, b"o-1")
    assert asked.transaction_id == asked.msg_id == header(half, names.UNIQ_KEY)
    assert (asked.half_queue, asked.queue_offset) == (half.partition, half.offset)
    assert (asked.check_times, asked.producer_group) == (2, checkback.group)


def test_an_exception_is_answered_unknown_with_a_remark(
    checkback: Checkback, listener: Scripted
) -> None:
    def fail(message: MessageExt) -> None:
        raise OSError("database away")

    listener.check = fail
    _, half = left_open(checkback, listener)
    checkback.ask(half)

    _, answer = checkback.ops(2)
    assert header(answer, names.COMMIT_OR_ROLLBACK) == "0"
    assert header(answer, names.REMARK) == "OSError: database away"


def test_a_request_older_than_the_pipelines_check_interval_is_skipped(
    checkback: Checkback, listener: Scripted
) -> None:
    # By the writer's time, so that the test can write an old request.
    by_writer = {"message.timestamp.type": "CreateTime"}
    checkback.create(TopicPlan(checkback.names.check(checkback.group), 1, by_writer))
    producer, half = left_open(checkback, listener)  # the send tells it the broker's time
    checkback.ask(half, times=1)
    checkback.ask(half, times=2, interval_ms=30_000, age_ms=60_000)
    checkback.ask(half, times=3)

    eventually(lambda: producer.counters.snapshot()[ClientEvent.CHECK_ANSWERED] == 2)
    assert [message.check_times for message in listener.checked] == [1, 3]
    assert producer.counters.snapshot()[ClientEvent.CHECK_SKIPPED] == 1


def test_a_check_topic_that_takes_too_small_records_is_told_by_producer_and_doctor(
    checkback: Checkback, listener: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Larger halves were never asked about, and all was well for `doctor`."""
    listener.execute = unanswered
    check_topic = checkback.names.check(checkback.group)
    checkback.create(TopicPlan(check_topic, 1, {"max.message.bytes": "5000"}))
    producer = checkback.producer(listener)
    assert f"{check_topic} takes records of 5000 bytes" in caplog.text
    for size in (9, 6_000):
        producer.send_message_in_transaction(Message("paid", bytes(size)))
    fits, large = sorted(checkback.halves(2), key=lambda half: len(half.value))
    settings = Settings(
        bootstrap_servers=checkback.bootstrap_servers, topic_prefix=checkback.prefix
    )
    reader = half_reader(settings)

    groups = [PendingGroup(1, 0, half.partition, half.offset, 0) for half in (fits, large)]
    found = Doctor(settings, lambda: 0)._undelivered(reader, groups)

    reader.close()
    ((place, why),) = found.items()
    assert place == (large.partition, large.offset)
    assert why.startswith(f"FINAL_TOO_LARGE: {check_topic} takes 5000 bytes")


def test_an_unreadable_request_holds_nothing_up(checkback: Checkback, listener: Scripted) -> None:
    producer, half = left_open(checkback, listener)

    checkback.ask(half._replace(headers=[]))
    checkback.ask(half)

    eventually(lambda: listener.checked)
    eventually(lambda: producer.counters.snapshot()[ClientEvent.CHECK_UNREADABLE] == 1)


def test_a_request_that_was_answered_is_not_answered_after_a_restart(
    checkback: Checkback, listener: Scripted
) -> None:
    first, half = left_open(checkback, listener)
    checkback.ask(half)
    eventually(lambda: first.counters.snapshot()[ClientEvent.CHECK_ANSWERED] == 1)
    first.shutdown()

    second = checkback.producer(listener)
    checkback.ask(half, times=2)

    eventually(lambda: second.counters.snapshot()[ClientEvent.CHECK_ANSWERED] == 1)
    assert [message.check_times for message in listener.checked] == [1, 2]


def test_a_request_whose_answer_was_under_way_at_shutdown_is_answered_by_the_next(
    checkback: Checkback, listener: Scripted
) -> None:
    never = threading.Event()

    def hang(message: MessageExt) -> LocalTransactionState:
        never.wait()
        return LocalTransactionState.COMMIT_MESSAGE

    hanging = Scripted()
    hanging.check = hang
    first, half = left_open(checkback, hanging, shutdown_timeout_ms=200)
    checkback.ask(half)
    eventually(lambda: hanging.checked)

    assert first.shutdown() == 1  # says what it left

    checkback.producer(listener)
    eventually(lambda: listener.checked)
    never.set()


def test_a_full_queue_pauses_and_loses_nothing(checkback: Checkback, listener: Scripted) -> None:
    gate = threading.Event()

    def wait(message: MessageExt) -> LocalTransactionState:
        gate.wait()
        return LocalTransactionState.COMMIT_MESSAGE

    listener.check = wait
    producer, half = left_open(checkback, listener, check_request_hold_max=2)
    for times in range(1, 9):
        checkback.ask(half, times)
    eventually(lambda: producer.counters.snapshot()[ClientEvent.CHECK_RECEIVED] >= 3)
    assert producer.counters.snapshot()[ClientEvent.CHECK_RECEIVED] <= 4

    gate.set()

    eventually(lambda: producer.counters.snapshot()[ClientEvent.CHECK_ANSWERED] == 8)
    assert [message.check_times for message in listener.checked] == list(range(1, 9))


OF_ITS_OWN = """
import os, sys
from checkback.client import *
class Forgets(TransactionListener):
    def execute_local_transaction(self, message, arg):
        if len(sys.argv) < 5:
            os._exit(9)
        return LocalTransactionState.UNKNOW
    def check_local_transaction(self, message):
        raise AssertionError
named = {"instance_name": sys.argv[4]} if len(sys.argv) > 4 else {}
producer = TransactionMQProducer(sys.argv[3], bootstrap_servers=sys.argv[1],
                                 transaction_listener=Forgets(), topic_prefix=sys.argv[2],
                                 check_session_timeout_ms=TIMEOUT_MS, **named)
producer.start()
producer.send_message_in_transaction(Message("paid", b"from the dead"))
sys.stdin.read()
"""
"""Sends a half and dies in its local transaction; under a name it waits instead."""


def process(checkback: Checkback, group: str, *name: str, timeout_ms: int = 6_000) -> list[str]:
    program = OF_ITS_OWN.replace("TIMEOUT_MS", str(timeout_ms))
    where = checkback.bootstrap_servers, checkback.prefix
    return [sys.executable, "-c", program, *where, group, *name]


def test_another_process_answers_for_a_killed_one(checkback: Checkback, listener: Scripted) -> None:
    dying = process(checkback, checkback.group)
    assert subprocess.run(dying, timeout=60, check=False).returncode == 9
    (half,) = checkback.halves(1)
    assert checkback.ops() == []

    checkback.producer(listener)
    checkback.ask(half)

    (op,) = checkback.ops(1)
    assert header(op, names.UNIQ_KEY) == header(half, names.UNIQ_KEY)
    assert listener.checked[0].body == b"from the dead"


def test_a_successor_of_the_same_name_answers_before_the_dead_processes_session_ends(
    checkback: Checkback, listener: Scripted
) -> None:
    group = f"{checkback.prefix}pods"  # the dead process stays in it for two minutes
    waiting = process(checkback, group, "pod-1", timeout_ms=120_000)
    admin = AdminClient({"bootstrap.servers": checkback.bootstrap_servers})
    with subprocess.Popen(waiting, stdin=subprocess.PIPE) as dying:
        (half,) = checkback.halves(1)
        eventually(lambda: live_members(admin, checkback.names.check(group)) == 1)
        dying.kill()

    checkback.producer(listener, group, instance_name="pod-1", check_session_timeout_ms=120_000)
    checkback.ask(half, group=group)

    (op,) = checkback.ops(2)[1:]  # within 45 s
    assert header(op, names.FROM_TRANSACTION_CHECK) == "true"


def test_two_processes_of_one_name_both_answer(
    checkback: Checkback, listener: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """The brokers fence the older one; it never answered again, also when the other was gone."""
    check_topic = checkback.names.check(checkback.group)
    checkback.create(TopicPlan(check_topic, 2, {}))
    admin = AdminClient({"bootstrap.servers": checkback.bootstrap_servers})
    _, half = left_open(checkback, listener, instance_name="pod-1", check_session_timeout_ms=6_000)
    eventually(lambda: live_members(admin, check_topic) == 1)
    namesake = process(checkback, checkback.group, "pod-1")
    with subprocess.Popen(namesake, stdin=subprocess.PIPE) as other:
        eventually(lambda: live_members(admin, check_topic) == 2)

        def asked() -> bool:  # until both have their partition, the younger one answers for both
            checkback.ask(half, times=1, partition=0)
            checkback.ask(half, times=2, partition=1)
            return bool(listener.checked)

        eventually(asked)
        assert "has the instance_name 'pod-1'" in caplog.text
        other.kill()

    checkback.ask(half, times=3, partition=0)
    checkback.ask(half, times=4, partition=1)

    eventually(lambda: {one.check_times for one in listener.checked} >= {3, 4})


@pytest.mark.parametrize(
    ("is_old_client", "assignor"), [(False, "cooperative-sticky"), (True, "range")]
)
def test_a_consumer_group_with_the_producer_groups_name_takes_no_checks_away(
    checkback: Checkback, listener: Scripted, is_old_client: bool, assignor: str
) -> None:
    """An application may have one, and clients from before 0.1.0 read their checks in it."""
    check_topic = checkback.names.check(checkback.group)
    checkback.create(TopicPlan(check_topic, 2, {}))
    settings = {
        "bootstrap.servers": checkback.bootstrap_servers,
        "group.id": checkback.group,
        "partition.assignment.strategy": assignor,
        "auto.offset.reset": "earliest",
    }
    other = Consumer(settings)
    try:
        other.subscribe([check_topic if is_old_client else "paid"])
        eventually(lambda: other.poll(0.1) is not None or other.assignment())
        _, half = left_open(checkback, listener)

        checkback.ask(half)

        (answer,) = checkback.ops(2)[1:]
        assert header(answer, names.FROM_TRANSACTION_CHECK) == "true"
        assert other.assignment()
        if is_old_client:
            request = other.poll(30)
            assert request is not None
            assert request.value() == ORDER.body
    finally:
        other.close()


def test_members_are_counted_where_the_protocol_of_their_group_can_be_described(
    checkback: Checkback, listener: Scripted
) -> None:
    """A group on the newer protocol was called silent while it answered."""
    admin = AdminClient({"bootstrap.servers": checkback.bootstrap_servers})
    checkback.producer(listener)
    newer_topic = checkback.names.check("newer")
    checkback.create(TopicPlan(newer_topic, 1, {}))
    servers = checkback.bootstrap_servers
    newer = Consumer(
        {"bootstrap.servers": servers, "group.id": newer_topic, "group.protocol": "consumer"}
    )
    try:
        newer.subscribe([newer_topic])
        eventually(lambda: newer.poll(0.1) is not None or newer.assignment())

        eventually(lambda: live_members(admin, checkback.names.check(checkback.group)) == 1)
        assert live_members(admin, newer_topic) is None
        assert live_members(admin, checkback.names.check("none")) == 0
    finally:
        newer.close()


def test_a_check_topic_that_grows_is_read_whole(
    checkback: Checkback, listener: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_clients, "CHECK_METADATA_AGE_MAX_MS", 1_000)  # not to wait for ten
    producer, half = left_open(checkback, listener)

    checkback.grow(checkback.names.check(checkback.group), 3)
    for partition in range(3):
        checkback.ask(half, times=partition + 1, partition=partition)

    eventually(lambda: producer.counters.snapshot()[ClientEvent.CHECK_ANSWERED] == 3)
