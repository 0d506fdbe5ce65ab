"""A lane and what surrounds it: groups, lost sessions, fallbacks, who waits, and the shutdown."""

from __future__ import annotations

import gc
import queue
import threading
import weakref
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.unit.client.direct_playing import COMMIT, ROLLBACK, Kafka, failed

from checkback.client.callback_result import CallbackResult
from checkback.client.counters import ClientEvent, Counters
from checkback.client.direct import delivery as delivery_module
from checkback.client.direct import lane, side
from checkback.client.direct.delivery import DirectDelivery, DirectSettings
from checkback.client.direct.direct_half import HalfState
from checkback.client.direct.fences import Fences
from checkback.client.direct.own_halves import OwnHalves
from checkback.client.half import Half
from checkback.client.message import Message
from checkback.client.polled_producer import ThreadReport
from checkback.protocol import properties as names
from checkback.protocol.records import half_headers
from checkback.protocol.topics import TopicNames

COMMITTED = CallbackResult(COMMIT)


class Gated(Kafka):
    """A producer whose commit waits until the test lets it go on."""

    def __init__(self, **fails: object) -> None:
        super().__init__(**fails)
        self.committing = threading.Event()
        self.gate = threading.Event()

    def commit_transaction(self, timeout_s: float) -> None:
        self.committing.set()
        assert self.gate.wait(20)
        super().commit_transaction(timeout_s)


class World:
    """Direct delivery over producers that the test gives, in the order in which they are opened."""

    def __init__(self, *producers: Kafka, waits: bool = False, lanes: int = 1) -> None:
        self.producers = list(producers)
        self.opened: list[str] = []
        self.ended: list[str] = []
        self.plain: list[tuple[str, int, str]] = []
        self.counters = Counters()
        self.own = OwnHalves()
        fences = Fences(self.end, "", "g", self.counters)
        facts: Any = SimpleNamespace(
            topic=lambda _: SimpleNamespace(leaders={0: 1}), takes_transactions=lambda *_: True
        )
        ops: Any = SimpleNamespace(send_one_way=self.send_one_way)
        settings = DirectSettings(
            topics=TopicNames(), producer_group="g", lanes=lanes, waits=waits,
            open_producer=self.open,
        )  # fmt: skip
        self.delivery = DirectDelivery(settings, self.own, fences, facts, ops, self.counters)
        self.delivery.start(20)
        self.number = 0

    def open(self, session_id: str) -> Kafka:
        self.opened.append(session_id)
        return self.producers.pop(0) if self.producers else Kafka()

    def end(self, session_id: str) -> Kafka:
        self.ended.append(session_id)
        return Kafka()

    def send_one_way(self, *op: Any, direct_closed: str) -> None:
        _, _, transaction_id, state, _ = op
        self.plain.append((transaction_id, int(state), direct_closed))

    def half(self, key: bytes | None = b"k") -> Half:
        self.number += 1
        headers = half_headers(
            producer_group="g", transaction_id=f"u{self.number}", real_topic="paid", properties={}
        )
        message = Message("paid", b"x", transaction_id=f"u{self.number}")
        half = Half(message, key, headers, lambda: "renamed", 1.0)
        half.partition, half.offset = 0, self.number
        self.delivery.bind(half)
        return half

    def finish(self, half: Half, outcome: CallbackResult = COMMITTED) -> ThreadReport | None:
        assert half.direct is not None
        return self.delivery.finish(half, half.direct, outcome, ThreadReport)

    def close(self) -> int:
        return self.delivery.close(lambda: 20.0)

    def count(self, event: ClientEvent) -> int:
        return self.counters.snapshot()[event]


def test_a_half_says_its_session_and_is_delivered() -> None:
    world = World()
    half = world.half()
    assert half.headers[5] == (names.DIRECT_ID, world.opened[0].encode())

    assert world.finish(half) is None  # the caller goes on
    assert world.close() == 0

    assert half.direct is not None
    assert half.direct.state is HalfState.DELIVERED
    assert not world.plain
    assert world.count(ClientEvent.DIRECT_DELIVERED) == 1


def test_a_listener_that_writes_over_its_message_changes_nothing_that_is_delivered() -> None:
    kafka = Kafka()
    world = World(kafka)
    half = world.half()
    half.message.topic, half.message.body, half.message.transaction_id = "other", b"other", "other"

    world.finish(half)
    world.close()

    assert half.direct is not None
    final, op = half.direct.records
    assert (final.topic, final.value, op.key) == ("paid", b"x", b"u1")


def test_groups_form_while_a_commit_is_under_way() -> None:
    kafka = Gated()
    world = World(kafka)
    world.finish(world.half())
    assert kafka.committing.wait(20)
    for _ in range(5):
        world.finish(world.half())
    kafka.gate.set()
    world.close()

    assert kafka.calls.count("commit") == 2
    assert world.count(ClientEvent.DIRECT_DELIVERED) == 6


def test_halves_of_a_key_share_a_lane_and_are_delivered_in_the_order_of_their_commits() -> None:
    lanes = [Kafka(), Kafka()]
    world = World(*lanes, lanes=2)
    halves = [world.half(b"%d" % (number % 8)) for number in range(40)]
    sent = halves[20:] + halves[:20]
    for half in sent:
        world.finish(half)
    world.close()

    by_lane = [kafka.keys[0::2] for kafka in lanes]  # a final's key, then an op's
    assert all(by_lane)
    assert not set(by_lane[0]) & set(by_lane[1])
    for kafka, keys in zip(lanes, by_lane, strict=True):
        mine = [half for half in sent if half.key in keys]
        assert kafka.keys[1::2] == [half.transaction_id.encode() for half in mine]


def test_halves_without_a_key_take_the_lanes_by_turns() -> None:
    world = World(lanes=2)
    halves = [world.half(None) for _ in range(4)]

    bound = [half.direct.lane for half in halves if half.direct is not None]
    assert bound == [0, 1, 0, 1]
    world.close()


def test_a_rollback_is_a_plain_op_that_closes_the_half() -> None:
    world = World()
    half = world.half()

    world.finish(half, CallbackResult(ROLLBACK))
    world.close()

    assert world.plain == [("u1", 12, world.opened[0])]
    assert world.count(ClientEvent.DIRECT_FELL_BACK) == 0


@pytest.mark.parametrize("step", ["begin", "produce paid", "commit"])
@pytest.mark.parametrize(
    ("code", "ends"), [(KafkaError._TIMED_OUT, True), (KafkaError._FENCED, False)]
)
def test_what_is_not_certainly_delivered_falls_back_and_costs_the_session(
    step: str, code: int, ends: bool
) -> None:
    world = World(Kafka(**{step: failed(code)}), waits=True)
    half, straggler = world.half(), world.half()

    report = world.finish(half)
    assert report is not None
    report.wait(20)
    world.finish(straggler)  # of the session that is over

    first = world.opened[0]
    assert world.plain == [("u1", 8, first), ("u2", 8, first)]
    assert side.is_delivered(half) is False
    assert world.count(ClientEvent.DIRECT_FELL_BACK) == 2
    world.close()
    assert world.ended == ([first] if ends else [])


def test_a_lost_session_is_followed_by_another_id() -> None:
    world = World(Kafka(commit=failed(KafkaError._FENCED)), waits=True)
    report = world.finish(world.half())
    assert report is not None
    report.wait(20)
    while len(world.opened) < 2 or not world.delivery._lanes[0].session_id:
        threading.Event().wait(0.01)

    after = world.half()
    second = world.finish(after)
    assert second is not None
    second.wait(20)

    assert side.is_delivered(after) is True
    assert dict(after.headers)[names.DIRECT_ID] == world.opened[1].encode()
    assert world.opened[1] != world.opened[0]
    world.close()


def test_without_a_session_halves_are_plain() -> None:
    world = World()
    world.close()

    half = world.half()

    assert half.direct is None
    assert names.DIRECT_ID not in dict(half.headers)


def test_a_full_backlog_makes_the_sender_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "BACKLOG_MAX", 2)
    kafka = Gated()
    world = World(kafka)
    world.finish(world.half())
    assert kafka.committing.wait(20)

    reports = [world.finish(world.half()) for _ in range(3)]

    assert [report is None for report in reports] == [True, True, False]
    kafka.gate.set()
    world.close()


def test_a_half_that_its_check_took_off_the_queue_is_not_delivered() -> None:
    kafka = Gated()
    world = World(kafka, waits=True)
    world.finish(world.half())
    assert kafka.committing.wait(20)
    half = world.half()
    report = world.finish(half)
    assert half.direct is not None
    assert world.own.close(half.direct)

    kafka.gate.set()
    assert report is not None
    report.wait(20)
    world.close()

    assert kafka.calls.count("produce paid") == 1
    assert side.is_delivered(half) is False


def test_a_half_that_is_tried_elsewhere_is_known_by_its_new_id() -> None:
    world = World()
    half = world.half()

    half.rename()

    assert world.own.find("renamed") is half.direct
    world.close()


def test_a_shutdown_says_what_it_left() -> None:
    kafka = Gated()
    world = World(kafka)
    world.finish(world.half())
    assert kafka.committing.wait(20)
    waiting = world.half()
    world.finish(waiting)

    left = world.delivery.close(lambda: 0.05)

    assert left == 2
    assert world.plain == [("u2", 8, world.opened[0])]
    kafka.gate.set()


def test_a_shutdown_may_find_taken_what_waited_a_moment_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Raced(queue.SimpleQueue[Any]):
        """Looks full to a shutdown whose time is over; by then the lane's thread has it."""

        def empty(self) -> bool:
            return kafka.gate.is_set() and super().empty()

    monkeypatch.setattr(lane, "queue", SimpleNamespace(SimpleQueue=Raced, Empty=queue.Empty))
    kafka = Gated()
    world = World(kafka)
    world.finish(world.half())
    assert kafka.committing.wait(20)

    assert world.delivery.close(lambda: 0.05) == 1

    kafka.gate.set()


def test_a_large_group_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "GROUP_MAX", 2)
    kafka = Gated()
    world = World(kafka)
    world.finish(world.half())
    assert kafka.committing.wait(20)
    for _ in range(4):
        world.finish(world.half())
    kafka.gate.set()
    world.close()

    assert kafka.calls.count("commit") == 3


def test_the_waiting_of_a_loop_is_the_same() -> None:
    """A report may be of any kind; a lane only wakes it."""
    world = World(waits=True)
    woken = threading.Event()
    report: Any = SimpleNamespace(wake=woken.set)
    half = world.half()
    assert half.direct is not None

    def new_report(_: deque[Any]) -> Any:
        return report

    assert world.delivery.finish(half, half.direct, COMMITTED, new_report) is report
    assert woken.wait(20)
    world.close()


@pytest.mark.parametrize("what", ["begin", "produce paid", "flush", "commit"])
def test_a_half_that_fell_back_and_its_producer_are_forgotten_at_once(what: str) -> None:
    kafka = Kafka(**{what: 1 if what == "flush" else failed(KafkaError._FENCED)})
    let_go = weakref.ref(kafka)
    world = World(kafka)
    del kafka
    gc.disable()
    try:
        world.finish(world.half())
        world.close()

        assert world.plain[0][0] == "u1"
        assert world.own.find("u1") is None
        for thread in threading.enumerate():
            if thread.name == "checkback-direct-close":
                thread.join(20)
        assert let_go() is None
    finally:
        gc.enable()
