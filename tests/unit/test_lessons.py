"""What a try that Kafka rejected teaches the next one."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from checkback.protocol.errors import BrokerError
from checkback.protocol.refusals import RefusedReason
from checkback.protocol.topics import TopicNames
from checkback.sinks.lessons import TIMEOUTS_MAX, Lessons
from checkback.sinks.transaction import Rejection

NAMES = TopicNames("p-")
LATE = Rejection("payments", 0, KafkaError._MSG_TIMED_OUT, "timed out")
TOO_LARGE = Rejection("orders", 0, KafkaError.MSG_SIZE_TOO_LARGE, "too large")


class Directory:
    """Notes what it is told to forget."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)

    def forget_all(self) -> None:
        self.forgotten.append("*")


def learn(lessons: Lessons, *rejections: Rejection) -> list[str]:
    directory: Any = Directory()
    lessons.learn(rejections, NAMES, directory, {"orders": (3, 7)})
    return list(directory.forgotten)


def test_records_of_a_topic_that_rejects_one_are_sent_one_by_one_to_find_it() -> None:
    lessons = Lessons()

    assert learn(lessons, TOO_LARGE) == ["orders"]
    assert lessons.one_by_one == {"orders"}
    learn(lessons, TOO_LARGE)

    assert lessons.refusal("orders", (3, 7)) is RefusedReason.FINAL_TOO_LARGE
    assert lessons.refusal("orders", (3, 8)) is None


def test_what_ran_out_of_time_behind_a_rejection_teaches_nothing() -> None:
    """With one record rejected librdkafka sends no other; those time out, whatever their topics."""
    lessons = Lessons()

    for _ in range(TIMEOUTS_MAX + 1):
        assert learn(lessons, LATE, TOO_LARGE, LATE) == ["orders"]

    assert lessons.one_by_one == {"orders"}


def test_records_that_are_late_for_no_reason_end_in_an_error() -> None:
    lessons = Lessons()

    for _ in range(TIMEOUTS_MAX):
        assert learn(lessons, LATE) == ["*"]
    with pytest.raises(BrokerError, match="does not take records for payments"):
        learn(lessons, LATE)
