"""A relay asks the brokers without waiting for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.protocol.errors import BrokerError
from checkback.relay.partition import JobPosition
from checkback.relay.questions import JobOffsets, Question

NONE_COMMITTED = -1_001
"""What librdkafka returns for a partition of which a group has committed nothing."""


@dataclass
class Brokers:
    """Answer when the test lets them."""

    asked: list[list[int]] = field(default_factory=list)
    may_answer: Event = field(default_factory=Event)
    failure: BrokerError | None = None

    def answer_of(self, numbers: list[int]) -> int:
        self.asked.append(numbers)
        assert self.may_answer.wait(30)
        if self.failure is not None:
            raise self.failure
        return 7


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def test_nothing_waits_and_an_answer_counts_from_its_question(threads: ThreadPoolExecutor) -> None:
    brokers = Brokers()
    question = Question(threads, brokers.answer_of)
    question.ask([])
    assert question.answer() is None
    before_s = time.monotonic()
    question.ask([0, 1])
    after_s = time.monotonic()
    question.ask([2])  # one at a time
    assert question.answer() is None
    brokers.may_answer.set()
    threads.submit(lambda: None).result(30)  # behind the question
    answer = question.answer()
    assert answer is not None
    assert before_s <= answer[0] <= after_s
    assert answer[1] == 7
    assert question.answer() is None
    question.ask([2])
    threads.submit(lambda: None).result(30)
    assert brokers.asked == [[0, 1], [2]]


def test_what_brokers_refuse_is_raised_where_the_answer_is_taken(
    threads: ThreadPoolExecutor,
) -> None:
    brokers = Brokers(failure=BrokerError("refused", remedy="grant it"))
    brokers.may_answer.set()
    question = Question(threads, brokers.answer_of)
    question.ask([0])
    threads.submit(lambda: None).result(30)
    with pytest.raises(BrokerError, match="refused"):
        question.answer()


@dataclass
class Coordinator:
    """A consumer whose group has committed offsets."""

    offset: int = 7
    code: int | None = None

    def committed(self, wanted: list[TopicPartition], _timeout_s: float) -> list[TopicPartition]:
        if self.code is not None:
            raise KafkaException(KafkaError(self.code))
        return [TopicPartition(at.topic, at.partition, self.offset) for at in wanted]


def test_how_far_the_job_has_come_is_what_its_group_has_committed() -> None:
    job, coordinator = job_offsets()
    assert job.of_partitions([3]) == {3: JobPosition(7, 7)}
    coordinator.offset = NONE_COMMITTED
    assert job.of_partitions([3]) == {3: JobPosition(0, 0)}
    coordinator.code = KafkaError._TIMED_OUT  # the coordinator moves
    assert job.of_partitions([3]) == {3: JobPosition(0, 0)}
    coordinator.code = KafkaError.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(BrokerError, match="position of the group app"):
        job.of_partitions([3])


def job_offsets() -> tuple[JobOffsets, Coordinator]:
    job: Any = object.__new__(JobOffsets)
    job.group, job.decided, job.half = "app", "decided", "half"
    job._consumer = Coordinator()
    return job, job._consumer
