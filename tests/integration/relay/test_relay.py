"""A relay on a real broker: commits become visible, whatever happens to it on the way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from tests.integration.bad_records import set_topic_config
from tests.integration.relay.relaying import RelayStage, relay_stage, started_relay
from tests.integration.running import COMMIT, wait_until
from tests.integration.sinking import delete_topic

from checkback.protocol.decided import Closed, OpKind, Taken
from checkback.protocol.errors import FencedError, PrerequisiteError
from checkback.protocol.properties import TAGS
from checkback.protocol.records import Op
from checkback.relay.decided_log import GROUP_OPS_MAX
from checkback.relay.inputs import Inputs
from checkback.relay.relay import Relay
from checkback.relay.turns import PartitionsLostError
from checkback.sinks.records.sink_record import SinkRecord
from checkback.streaming.relay.decided_topic import DecidedTopic
from checkback.testing import Topics
from checkback.testing.topics import create_plain_topics

D, P, EARLY = OpKind.DELIVERED, OpKind.PASSED, OpKind.EARLY


@pytest.fixture
def stage(topics: Topics) -> Iterator[RelayStage]:
    with relay_stage(topics) as made:
        yield made


def test_a_clean_commit_is_visible_and_the_rest_is_passed(stage: RelayStage) -> None:
    stage.take_all()
    sent_ms = time.time() * 1_000
    old = stage.half("old")
    stage.ready_relay()
    stage.topics.send_op(old, "old", 8)
    stage.commit("one")
    stage.commit("two", partition=1)
    rolled_back = stage.half("three")
    stage.topics.send_op(rolled_back, "three", 12)
    refused = stage.half("refused")
    op = Op(*refused, "g", "refused", COMMIT)
    headers = [(TAGS, b"not d"), *op.headers()[1:]]
    stage.topics.send_raw(stage.names.op, op.value(), headers, 0)
    early = (0, refused[1] + 1)
    stage.topics.send_op(early, "four", 8)
    stage.settle()

    assert stage.finals() == ["one", "two"]
    assert (stage.kinds(0), stage.kinds(1)) == ([P, D, P, P, EARLY], [D])
    stage.step_until(lambda: stage.marks(0)[-1].read_until_ms > sent_ms)
    last = stage.marks(0)[-1]
    assert last.read_until_ms <= time.time() * 1_000
    assert (last.position, last.ops_from, last.halves_from) == (5, 0, 0)
    assert last.floor >= 4


def test_a_relay_waits_for_the_job_s_start_and_ends_where_the_job_took_the_ops_back(
    stage: RelayStage,
) -> None:
    relay = stage.relay()
    stage.step_until(lambda: relay._starts)
    stage.commit("before")
    for _ in range(10):
        relay.step()
    assert not relay.is_ready
    stage.note(0, Taken(1, 1))
    stage.note(1, Taken(0, 0))
    stage.step_until(lambda: relay.is_ready)
    stage.commit("after")
    stage.step_until(lambda: len(stage.kinds()) == 1)  # the op before L is not the relay's
    assert stage.finals() == ["after"]
    relay.close()
    stage.relays.clear()

    stage.note(0, Closed(2))
    stage.note(1, Closed(2))
    with pytest.raises(PrerequisiteError, match="takes the ops of partition"):
        stage.step_until(lambda: False, stage.relay())


def test_rule_11_a_topic_that_rejects_costs_one_try_and_is_left_to_the_job(
    stage: RelayStage,
) -> None:
    stage.take_all()
    relay = stage.ready_relay()
    narrow = f"{stage.topics.prefix}narrow"
    create_plain_topics(stage.settings, [narrow])
    small = stage.topics.send_half(b"small", narrow)
    stage.topics.send_op(small, "small", 8)
    stage.settle()
    set_topic_config(stage.topics.connection, narrow, max_message_bytes="1000")
    large = [
        stage.topics.send_half(b"%d" % at * 2_000, narrow, transaction_id="l") for at in (1, 2)
    ]
    healthy = stage.half("healthy")
    stage.step_until(lambda: len(relay.partitions[0].memory) == 3)
    for at, name in ((large[0], "l"), (healthy, "healthy"), ((0, healthy[1] + 1), "early")):
        stage.topics.send_op(at, name, 8)
    stage.settle()
    assert relay.counts.failed == 1
    assert EARLY in stage.kinds(0)[-3:]
    stage.topics.send_op(large[1], "l", 8)
    stage.commit("healthy again")
    stage.settle()

    assert stage.topics.bodies(narrow) == ["small"]
    assert "healthy again" in stage.finals()
    assert stage.kinds(0)[-2:] == [P, D]
    assert relay.counts.failed == 1


def test_a_backlog_fits_into_the_batches_of_topics_for_small_messages(topics: Topics) -> None:
    """A batch that the decided topic refuses as too large would be written again for ever."""
    with relay_stage(topics, max_message_bytes=1_024) as stage:
        stage.take_all()
        old = stage.half("old")
        op = Op(*old, "g", "old", COMMIT, remark="r" * 300)
        headers: Any = op.headers()
        producer = Producer({**topics.connection, "batch.size": 16_000})
        for _ in range(2_000):
            producer.produce(stage.names.op, op.value(), op.key(), 0, headers=headers)
        producer.flush(30)
        relay = stage.ready_relay()
        stage.settle()

        assert stage.kinds(0) == [P] * 2_000
        assert relay.counts.failed == 0


def test_a_backlog_is_read_once(stage: RelayStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What librdkafka has read ahead is lost when a partition is paused: it was read ten times."""
    stage.take_all()
    number = 4 * GROUP_OPS_MAX
    op = Op(*stage.half("old"), "g", "old", COMMIT)
    headers: Any = op.headers()
    producer = Producer(stage.topics.connection)
    for _ in range(number):
        producer.produce(stage.names.op, op.value(), op.key(), 0, headers=headers)
    producer.flush(30)
    relay, paused = stage.relay(), list[int]()
    monkeypatch.setattr(Inputs, "set_paused", lambda _, at, **__: paused.append(at))
    stage.step_until(lambda: relay.counts.decided.total() == number)

    assert paused == []


def test_ops_that_unpack_to_more_than_a_topic_takes_hold_nobody_up(stage: RelayStage) -> None:
    """The relay, and a start that closes, could not write them, and tried again for ever."""
    stage.take_all()
    relay = stage.ready_relay()
    set_topic_config(stage.topics.connection, stage.names.op, compression_type="producer")
    packed = {"compression.type": "gzip", "message.max.bytes": 20_000_000}
    stranger = Producer({**stage.topics.connection, **packed})
    stranger.produce(stage.names.op, bytes(9_000_000), b"k", 0)
    for _ in range(40):
        stranger.produce(stage.names.op, b"0", bytes(500_000), 0)
    stranger.flush(30)
    stage.commit("healthy")
    stage.settle()
    assert stage.kinds(0) == [OpKind.UNREADABLE, *[P] * 40, D]
    assert relay.counts.failed == 0
    assert relay.counts.groups > 1  # not all in one transaction
    relay.close()
    stage.relays.clear()

    stranger.produce(stage.names.op, bytes(9_000_000), b"k", 0)
    stranger.flush(30)
    topic = DecidedTopic(stage.settings, stage.settings.connection(), 2)
    assert topic.close_relays({0: 43, 1: 0}, {0: 0, 1: 0}) == {0: 43, 1: 0}
    assert stage.kinds(0)[-2:] == [D, OpKind.UNREADABLE]
    assert stage.finals() == ["healthy"]


def test_rule_1_a_position_of_an_old_generation_is_refused(stage: RelayStage) -> None:
    stage.take_all()
    relay = stage.ready_relay()
    metadata = relay._inputs.metadata
    relay._inputs.close()
    stage.relays.clear()
    successor = stage.ready_relay(1)
    final = SinkRecord(stage.real, 0, None, b"of a zombie", [], 0)
    position = TopicPartition(stage.names.op, 0, 7)
    with pytest.raises(PartitionsLostError):
        relay._turns.write([final], {}, [position], metadata)
    stage.commit("one")
    stage.settle(successor)
    relay._turns.close()

    assert stage.finals() == ["one"]


def test_what_was_said_of_a_former_op_topic_hides_no_op_of_the_new_one(stage: RelayStage) -> None:
    def take(topic: DecidedTopic) -> None:
        topic.take({at: Taken(0, end) for at, end in topic.half_ends().items()})

    connection = stage.settings.connection()
    take(DecidedTopic(stage.settings, connection, 2))
    relay = stage.ready_relay()
    for name in ("a", "b"):
        stage.commit(name)
        stage.settle()
    relay.close()
    stage.relays.clear()
    delete_topic(connection, stage.names.op)
    stage.topics.create(stage.settings)

    topic = DecidedTopic(stage.settings, connection, 2)
    assert topic.notes({}, {}) == {0: [], 1: []}
    relay = stage.relay()
    stage.step_until(
        lambda: relay._starts and all(one.log.is_read for one in relay._starts.values())
    )
    assert not relay.partitions  # it waits for the job
    take(topic)
    stage.commit("c")
    stage.step_until(lambda: len(stage.kinds()) == 3)
    assert stage.finals() == ["a", "b", "c"]


def test_rule_10_behind_a_passed_commit_its_key_waits_for_the_job(topics: Topics) -> None:
    with relay_stage(topics, order="key") as stage:
        stage.take_all()
        stage.half("old", key=b"k")  # the job has not read the half partition past it
        relay = stage.ready_relay()
        for name in ("after the start", "too"):
            stage.commit(name, key=b"k")
            stage.settle()
        other = stage.half("of another key", key=b"l")
        stage.topics.send_op(other, "of another key", 8)
        stage.settle()
        assert stage.kinds(0) == [P, P, P]  # the whole partition is behind the start
        written(stage, relay)
        relay._finals.leave_to_job(stage.real)
        stage.commit("doubtful", key=b"k")
        stage.settle()
        relay._finals._left_to_job.clear()
        for name, key in (("of its key", b"k"), ("of another", b"l"), ("without a key", None)):
            stage.commit(name, key=key)
            stage.settle()
        assert stage.kinds(0)[3:] == [P, P, D, D]
        written(stage, relay)
        stage.commit("written", key=b"k")
        stage.settle()

        assert stage.finals() == ["of another", "without a key", "written"]


def written(stage: RelayStage, relay: Relay) -> None:
    """Say that everything so far is read and written, and let the relay learn it."""
    stage.publish_position()
    stage.step_until(lambda: not relay.partitions[0].awaits_job)


def test_two_relays_with_one_number_do_not_write_side_by_side(stage: RelayStage) -> None:
    stage.take_all()
    older = stage.ready_relay()
    stage.relay()
    stage.commit("one")
    with pytest.raises(FencedError, match="same number"):
        stage.step_until(lambda: False, older)


@pytest.mark.parametrize(
    "number",
    [
        # By day test_relayed_pipeline.py kills a relay, and its job.
        pytest.param(signal.SIGKILL, marks=pytest.mark.nightly),
        signal.SIGSTOP,
    ],
)
def test_one_of_two_relays_ends_amid_the_traffic_and_nothing_is_lost_or_doubled(
    stage: RelayStage, number: signal.Signals
) -> None:
    stage.take_all()
    first, second = (started_relay(stage, instance) for instance in (0, 1))
    sent: list[str] = []

    def send_and_see(count: int) -> None:
        for _ in range(count):
            sent.append(f"m{len(sent)}")
            stage.commit(sent[-1], partition=len(sent) % 2)
        # The other relay has both partitions only when the first one's session is over.
        wait_until(lambda: len(stage.kinds()) >= len(sent), 120.0)

    try:
        send_and_see(200)
        threading.Timer(0.1, first.send_signal, [number]).start()
        send_and_see(200)
        first.send_signal(signal.SIGCONT)
        send_and_see(50)
        kinds = stage.kinds()
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
    finals = stage.finals()

    assert len(set(finals)) == len(finals)
    assert set(finals) <= set(sent)
    assert kinds.count(D) == len(finals) > 0
    assert kinds.count(D) + kinds.count(P) == len(sent)
