"""What a relay's consumer gives is sorted out, and ends are asked for without waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.protocol.errors import BrokerError
from checkback.relay.inputs import AskedEnds, AskedJob, Inputs, Read, read_of
from checkback.relay.partition import JobPosition
from checkback.sinks.records.source_record import is_unreadable


@dataclass
class Message:
    at: int
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self.at

    def headers(self) -> list[object]:
        return []

    def key(self) -> None:
        return None

    value = timestamp = key


def test_messages_are_records_ends_or_what_can_t_be_unpacked() -> None:
    record: Any = Message(0)
    assert read_of(record) == Read("t", 3, 0, record)
    assert read_of(Message(2, KafkaError._PARTITION_EOF)) == Read("t", 3, 2, None)  # type: ignore[arg-type]
    packed = read_of(Message(1, KafkaError._BAD_COMPRESSION))  # type: ignore[arg-type]
    assert packed is not None
    assert packed.record is not None
    assert (packed.offset, is_unreadable(packed.record)) == (1, True)
    assert read_of(Message(0, KafkaError._BAD_COMPRESSION)) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._MAX_POLL_EXCEEDED])
def test_an_error_that_passes_is_no_record(code: int) -> None:
    assert read_of(Message(-1, code)) is None  # type: ignore[arg-type]


def test_an_error_that_does_not_pass_is_raised() -> None:
    message: Any = Message(-1, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    with pytest.raises(BrokerError, match="t-3"):
        read_of(message)


def test_in_a_batch_that_can_not_be_unpacked_each_look_goes_one_record_on() -> None:
    """librdkafka names the first record of the batch, wherever in it one seeks."""
    found, sought = [Message(5, KafkaError._BAD_COMPRESSION)], list[int]()
    consumer = SimpleNamespace(
        poll=lambda _: found[0],
        consume=lambda *_: [],
        seek=lambda place: sought.append(place.offset),
    )
    inputs: Any = object.__new__(Inputs)
    inputs._consumer, inputs._sought = consumer, {}
    for _ in range(3):
        inputs.poll(0.0)
    found[0] = Message(9, KafkaError._BAD_COMPRESSION)
    inputs.poll(0.0)

    assert sought == [6, 7, 8, 10]


@dataclass
class Admin:
    """Answers when the test says so."""

    asked: list[list[int]] = field(default_factory=list)
    answers: dict[TopicPartition, Future[Any]] = field(default_factory=dict)

    def list_offsets(self, asked: dict[TopicPartition, object], **_: object) -> Any:
        self.asked.append([at.partition for at in asked])
        self.answers = {at: Future() for at in asked}
        return self.answers

    def answer(self, offset: int) -> None:
        for one in self.answers.values():
            one.set_result(SimpleNamespace(offset=offset, leader_epoch=None))


def test_ends_are_asked_for_without_waiting_and_an_answer_counts_from_its_question() -> None:
    admin = Admin()
    ends = AskedEnds(admin, "t")  # type: ignore[arg-type]
    ends.ask([])
    assert ends.answer() is None
    before_s = time.monotonic()
    ends.ask([0, 1])
    after_s = time.monotonic()
    ends.ask([2])
    assert (admin.asked, ends.answer()) == ([[0, 1]], None)
    admin.answer(7)
    answer = ends.answer()
    assert answer is not None
    assert before_s <= answer[0] <= after_s
    assert answer[1] == {0: 7, 1: 7}
    assert ends.answer() is None
    ends.ask([2])
    assert admin.asked[1:] == [[2]]


@dataclass
class Coordinator:
    """A consumer whose group has committed offsets; the test lets it answer."""

    offset: int = 0
    code: int | None = None
    asked: list[list[tuple[str, int]]] = field(default_factory=list)
    may_answer: Event = field(default_factory=Event)

    def committed(self, wanted: list[TopicPartition], _timeout_s: float) -> list[TopicPartition]:
        self.asked.append([(at.topic, at.partition) for at in wanted])
        self.may_answer.wait(30)
        if self.code is not None:
            raise KafkaException(KafkaError(self.code))
        # librdkafka has a negative number where nothing is committed.
        return [TopicPartition(at.topic, at.partition, self.offset) for at in wanted]


@pytest.fixture
def asked_job(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AskedJob, Coordinator]]:
    coordinator = Coordinator()
    monkeypatch.setattr("checkback.relay.inputs.Consumer", lambda _: coordinator)
    monkeypatch.setattr("checkback.relay.inputs.ASK_JOB_S", 0.0)
    asked = AskedJob({}, "app", "decided", "half")
    yield asked, coordinator
    coordinator.may_answer.set()
    asked._thread.shutdown()


def answer_of(asked: AskedJob) -> dict[int, JobPosition]:
    """Return the next answer, once the thread has it."""
    assert asked._answer is not None
    wait([asked._answer], 30)
    return asked.answer()


def test_how_far_the_job_has_come_is_asked_for_without_waiting(
    asked_job: tuple[AskedJob, Coordinator],
) -> None:
    asked, coordinator = asked_job
    asked.ask([])
    assert (asked.answer(), coordinator.asked) == ({}, [])
    coordinator.offset = 7
    asked.ask([3])
    asked.ask([4])  # one question at a time
    assert asked.answer() == {}
    coordinator.may_answer.set()
    assert answer_of(asked) == {3: JobPosition(7, 7)}
    assert (asked.answer(), coordinator.asked) == ({}, [[("decided", 3), ("half", 3)]])
    coordinator.offset = -1_001
    asked.ask([3])
    assert answer_of(asked) == {}


def test_a_coordinator_that_moves_is_asked_again_and_a_missing_right_is_said(
    asked_job: tuple[AskedJob, Coordinator],
) -> None:
    asked, coordinator = asked_job
    coordinator.may_answer.set()
    coordinator.code = KafkaError._TIMED_OUT
    asked.ask([3])
    assert answer_of(asked) == {}
    coordinator.code = KafkaError.GROUP_AUTHORIZATION_FAILED
    asked.ask([3])
    with pytest.raises(BrokerError, match="position of the group app"):
        answer_of(asked)
