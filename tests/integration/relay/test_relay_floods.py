"""Whatever somebody writes beside it, no healthy commit waits for it at a relay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.deciding import plain_half
from tests.integration.bad_records import set_topic_config
from tests.integration.relay.relaying import RelayStage, relay_process, relay_stage
from tests.integration.running import COMMIT, Topics, wait_until

from checkback.protocol.decided import OpKind
from checkback.protocol.records import Op
from checkback.protocol.topics import relay_group
from checkback.testing.topics import create_plain_topics

BOUND_S = 1.0
PAUSE_S = 0.05
OPS = 200_000
LARGE = b"v" * (4 * 1_048_576 - 2_048)
# By day tests/unit/relay/test_partition.py holds rule 5 by a clock, test_relay.py rule 11.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]


@dataclass
class Healthy:
    """Healthy commits on one partition, some twenty a second, and how long each was invisible."""

    stage: RelayStage
    partition: int
    sent: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._send, self._read)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)

    @property
    def slowest_s(self) -> float:
        """The longest time from an op to its visible message; unseen ones count until now."""
        now_s = time.monotonic()
        return max(self.seen.get(name, now_s) - sent_s for name, sent_s in [*self.sent.items()])

    def _send(self) -> None:
        own = Topics(self.stage.topics.bootstrap_servers, self.stage.topics.prefix)
        while not self._ended.is_set():
            name = f"healthy {self.partition} {len(self.sent)}"
            half = own.send_half(name.encode(), self.stage.real, partition=self.partition)
            self.sent[name] = time.monotonic()
            own.send_op(half, name, COMMIT)
            time.sleep(PAUSE_S)

    def _read(self) -> None:
        reader = {"group.id": "reader", "isolation.level": "read_committed"}
        consumer = Consumer({**self.stage.topics.connection, **reader})
        consumer.assign([TopicPartition(self.stage.real, number, 0) for number in (0, 1)])
        while not self._ended.is_set() or self.sent.keys() - self.seen.keys():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.seen.setdefault((message.value() or b"").decode(), time.monotonic())
        consumer.close()


@pytest.fixture
def stage(topics: Topics, tmp_path: Path) -> Iterator[RelayStage]:
    """A relay that serves both partitions."""
    with running_relay(topics, tmp_path) as made:
        yield made


@contextmanager
def running_relay(topics: Topics, folder: Path, **given: Any) -> Iterator[RelayStage]:
    with relay_stage(topics, **given) as stage:
        stage.take_all()
        with relay_process(stage.settings, folder) as relay:
            relay.wait_for("started")
            yield stage
            assert relay.terminate() == 0, relay.errors()


def write_ops(stage: RelayStage, named: Callable[[int], int]) -> None:
    producer = Producer({**stage.topics.connection, "linger.ms": 5})
    for at in range(OPS):
        op = Op(0, named(at), "loud", f"forged-{at}", COMMIT)
        headers: Any = op.headers()
        producer.produce(stage.names.op, op.value(), op.key(), 0, headers=headers)
        producer.poll(0)
    producer.flush(60)


def relays_position(stage: RelayStage) -> int:
    """Return up to where relays have decided the ops of partition 0."""
    group = relay_group(stage.settings.application_id)
    consumer = Consumer({**stage.topics.connection, "group.id": group})
    try:
        return consumer.committed([TopicPartition(stage.names.op, 0)], 10)[0].offset
    finally:
        consumer.close()


def commit_until_delivered(stage: RelayStage) -> int:
    """Commit one half after another until a relay delivers one; return their number.

    A relay that has not read a half after a second passes its op on.
    """
    sent = 0

    def is_decided() -> bool:
        return len(stage.kinds(0)) == sent

    while OpKind.DELIVERED not in stage.kinds(0):
        stage.commit("behind")
        sent += 1
        wait_until(is_decided)
    return sent


def held_up_s(stage: RelayStage, flood: Callable[[], object]) -> float:
    """Return how much longer the slowest healthy commit took amid a flood of the other partition.

    Longer than before it: on a machine with other work all of them take their time.
    """
    with Healthy(stage, 1) as healthy:
        wait_until(lambda: len(healthy.seen) > 20, what="healthy messages")
        usual_s = healthy.slowest_s
        begun_s = time.monotonic()
        flood()
        wait_until(lambda: relays_position(stage) >= OPS, 240, "the flood to be decided")
        took_s = time.monotonic() - begun_s
    print(
        f"{OPS} ops in {took_s:.1f} s; slowest healthy commit {healthy.slowest_s:.2f} s,"
        f" before the flood {usual_s:.2f} s"
    )
    return healthy.slowest_s - usual_s


@pytest.mark.parametrize(("named", "kind"), [(0, OpKind.PASSED), (10**9, OpKind.EARLY)])
def test_ops_that_somebody_forged_hold_up_no_other_partition(
    stage: RelayStage, named: int, kind: OpKind
) -> None:
    stage.half("named by each")
    held_s = held_up_s(stage, lambda: write_ops(stage, lambda _: named))

    assert held_s < BOUND_S
    assert set(stage.kinds(0)) == {kind}


def test_halves_in_a_stranger_s_open_transaction_hold_up_no_other_partition(
    stage: RelayStage,
) -> None:
    """Each op names a half that nobody can read; all of them together cost a second."""
    producer = Producer({**stage.topics.connection, "transactional.id": f"{stage.topics.prefix}s"})
    producer.init_transactions(30)
    producer.begin_transaction()
    stranger: Any = plain_half("hidden", stage.real)
    for _ in range(OPS):
        producer.produce(stage.names.half, b"hidden", partition=0, headers=stranger)
        producer.poll(0)
    producer.flush(60)

    held_s = held_up_s(stage, lambda: write_ops(stage, lambda at: at))
    producer.abort_transaction(30)

    assert held_s < BOUND_S
    assert set(stage.kinds(0)) == {OpKind.PASSED}


def test_behind_a_stranger_s_open_transaction_an_op_waits_a_second_for_its_half(
    stage: RelayStage,
) -> None:
    producer = Producer({**stage.topics.connection, "transactional.id": f"{stage.topics.prefix}s"})
    producer.init_transactions(30)
    before = stage.half("before")
    producer.begin_transaction()
    producer.produce(stage.names.half, b"hidden", partition=0)
    producer.flush(30)
    behind = stage.half("behind")
    begun_s = time.monotonic()
    stage.topics.send_op(behind, "behind", COMMIT)
    stage.topics.send_op(before, "before", COMMIT)
    wait_until(lambda: stage.finals() == ["before"], 10)
    took_s = time.monotonic() - begun_s
    producer.abort_transaction(30)

    assert 0.9 < took_s < BOUND_S + 0.6
    assert stage.kinds(0) == [OpKind.PASSED, OpKind.DELIVERED]


def test_topics_that_reject_cost_one_try_each(stage: RelayStage) -> None:
    """Then their commits are the job's, and so are the others of the groups that failed."""
    narrow = [f"{stage.topics.prefix}narrow-{at}" for at in range(5)]
    create_plain_topics(stage.settings, narrow, 1, {"max.message.bytes": "1048588"})
    for topic in narrow:  # the relay learns what they take before they take less
        stage.topics.send_op(stage.topics.send_half(b"small", topic), "small", COMMIT)
    wait_until(lambda: len(stage.kinds(0)) == len(narrow))
    for topic in narrow:
        set_topic_config(stage.topics.connection, topic, max_message_bytes="1000")

    places = [
        stage.topics.send_half(b"x" * 2_000, narrow[at % 5], transaction_id="x") for at in range(40)
    ]
    for half in places:
        stage.topics.send_op(half, "x", COMMIT)
    begun_s = time.monotonic()
    wait_until(lambda: len(stage.kinds(0)) == len(narrow) + len(places), 10)
    assert time.monotonic() - begun_s < BOUND_S * len(narrow)
    assert set(stage.kinds(0)[len(narrow) :]) == {OpKind.PASSED}


def test_of_the_largest_halves_a_relay_holds_what_fits(topics: Topics, tmp_path: Path) -> None:
    number = 200
    with running_relay(topics, tmp_path, relay_memory_bytes_max=64_000_000) as stage:
        set_topic_config(topics.connection, stage.real, max_message_bytes="5000000")
        halves = Producer({**topics.connection, "message.max.bytes": 5_000_000})
        for at in range(number):
            headers: Any = plain_half(f"{at}", stage.real)
            halves.produce(stage.names.half, LARGE, partition=0, headers=headers)
            halves.flush(60)
        commits_behind = commit_until_delivered(stage)  # then it has read all of these halves
        with Healthy(stage, 1) as healthy:
            for at in range(number):
                topics.send_op((0, at), f"{at}", COMMIT)
            wait_until(lambda: len(stage.kinds(0)) == commits_behind + number, 120)
        kinds = stage.kinds(0)[commits_behind:]
    print(f"{kinds.count(OpKind.DELIVERED)} delivered; slowest healthy {healthy.slowest_s:.2f} s")

    # Half of the memory is the partition's, and seven of these fit into it.
    assert kinds == [OpKind.PASSED] * (number - 7) + [OpKind.DELIVERED] * 7
    assert healthy.slowest_s < BOUND_S
