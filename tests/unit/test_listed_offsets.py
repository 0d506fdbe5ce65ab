"""Offsets of partitions whose leader is just changing are asked for again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.transient_errors import LEADER_MOVES, PAUSE_S
from checkback.sinks.kafka.read.list_offsets import listed_offsets

COMMITTED = IsolationLevel.READ_COMMITTED


@dataclass
class Answer:
    code: int | None

    @property
    def offset(self) -> int:
        return 7

    def result(self, _: float) -> Answer:
        if self.code is not None:
            raise KafkaException(KafkaError(self.code))
        return self


@dataclass
class Leaders:
    """Answers with the codes that are listed for a partition, one after another, then with 7."""

    codes: dict[int, list[int]]
    asked: list[list[int]] = field(default_factory=list)

    def list_topics(self, **_: Any) -> None:
        """Name the leaders; here nobody asks for them."""

    def list_offsets(self, places: dict[TopicPartition, Any], **_: Any) -> dict[Any, Answer]:
        self.asked.append([place.partition for place in places])
        return {
            place: Answer(codes.pop(0) if (codes := self.codes.get(place.partition)) else None)
            for place in places
        }


def offsets(leaders: Leaders, retry_s: float = 60, pauses: list[float] | None = None) -> Any:
    places, latest = [("t", 0), ("t", 1)], OffsetSpec.latest()
    pause = [] if pauses is None else pauses
    return listed_offsets(
        leaders, places, latest, COMMITTED, 1, retry_s=retry_s, pause=pause.append
    )


@pytest.mark.parametrize("code", sorted(LEADER_MOVES))
def test_only_the_partition_whose_leader_changes_is_asked_for_again(code: int) -> None:
    leaders = Leaders({1: [code, code]})
    pauses: list[float] = []

    assert offsets(leaders, pauses=pauses) == {("t", 0): 7, ("t", 1): 7}
    assert leaders.asked == [[0, 1], [1], [1]]
    assert pauses == [PAUSE_S] * 2


def test_the_leaders_are_looked_up_again_before_they_are_asked_again() -> None:
    """Else librdkafka sends the old leader epoch, and leaders refuse it until its cache expires."""

    class Restarted(Leaders):
        def list_topics(self, **_: Any) -> None:
            self.codes.clear()

    leaders = Restarted({1: [KafkaError.FENCED_LEADER_EPOCH] * 100})

    assert offsets(leaders) == {("t", 0): 7, ("t", 1): 7}
    assert leaders.asked == [[0, 1], [1]]


def test_brokers_that_do_not_name_the_leaders_are_asked_for_offsets_again() -> None:
    class Silent(Leaders):
        def list_topics(self, **_: Any) -> None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    leaders = Silent({1: [KafkaError.NOT_LEADER_FOR_PARTITION]})

    assert offsets(leaders) == {("t", 0): 7, ("t", 1): 7}


@pytest.mark.parametrize(
    ("code", "retry_s"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, 0),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 60),
        (KafkaError._TIMED_OUT, 60),
    ],
)
def test_what_does_not_pass_names_the_partition(code: int, retry_s: float) -> None:
    leaders = Leaders({1: [code] * 10})

    with pytest.raises(BrokerError, match="offsets of t-1 can't be read") as refused:
        offsets(leaders, retry_s)
    assert (refused.value.fields["topic"], refused.value.fields["partition"]) == ("t", 1)
    assert leaders.asked == [[0, 1]]
