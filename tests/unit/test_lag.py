"""Committing the pipeline's position: at most once a second, one request at a time, no failure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Event
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from checkback.streaming.reports.offset_publisher import Ends, OffsetPublisher


@dataclass
class Brokers:
    """Takes commits like a Consumer; answers, with or without an error, when the test says so."""

    requests: list[dict[tuple[str, int], int]] = field(default_factory=list)
    answered: int = 0
    polls: int = 0
    is_closed: bool = False
    now_s: float = 100.0
    publisher: OffsetPublisher = field(init=False)

    def __post_init__(self) -> None:
        consumer = cast("Consumer", self)
        self.publisher = OffsetPublisher("app", {}, lambda: self.now_s, consumer)

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        self.requests.append({(one.topic, one.partition): one.offset for one in offsets})

    def poll(self, wait_s: float) -> None:
        self.polls += 1
        self.now_s += wait_s
        if self.answered == len(self.requests):
            self.publisher._answered(None, [])

    def close(self) -> None:
        self.is_closed = True


def read_to(end: int) -> Ends:
    return {("half", 0): end, ("op", 0): 1}


def test_what_is_new_is_committed_and_nothing_twice() -> None:
    brokers = Brokers()

    brokers.publisher.publish({})
    for end in (7, 7, 8):
        brokers.publisher.publish(read_to(end))

    assert [one["half", 0] for one in brokers.requests] == [7, 8]


def test_it_is_due_a_second_after_an_answered_request() -> None:
    brokers = Brokers()
    assert brokers.publisher.is_due()

    brokers.publisher.publish(read_to(7))
    brokers.now_s += 5
    assert not brokers.publisher.is_due()  # no answer yet

    brokers.answered = 1
    assert brokers.publisher.is_due()
    brokers.publisher.publish(read_to(8))
    brokers.answered = 2
    brokers.now_s += 0.9
    assert not brokers.publisher.is_due()


def test_the_end_of_a_job_waits_a_moment_for_brokers_that_do_not_answer() -> None:
    brokers = Brokers()

    brokers.publisher.publish_last(read_to(7))

    assert [one["half", 0] for one in brokers.requests] == [7]
    assert brokers.is_closed
    assert 101 < brokers.now_s < 103


def test_the_end_of_a_job_waits_for_nothing_where_nothing_is_asked() -> None:
    brokers = Brokers()

    brokers.publisher.publish_last({})

    assert (brokers.polls, brokers.now_s) == (0, 100.0)


def test_the_end_of_a_job_leaves_a_consumer_that_does_not_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the right to read the group it never does; the job hung when its rules changed."""
    is_over = Event()
    brokers = Brokers()
    monkeypatch.setattr(brokers, "close", lambda: is_over.wait(60))
    monkeypatch.setattr("checkback.streaming.reports.offset_publisher.LAST_WAIT_S", 0.2)

    began_s = time.monotonic()
    brokers.publisher.publish_last(read_to(7))

    took_s = time.monotonic() - began_s
    is_over.set()
    assert took_s < 30


def test_offsets_that_were_not_stored_are_committed_again() -> None:
    brokers = Brokers()
    brokers.publisher.publish(read_to(7))
    brokers.publisher._answered("not the coordinator", [])
    brokers.answered = 1

    brokers.publisher.publish(read_to(7))

    assert [one["half", 0] for one in brokers.requests] == [7, 7]
