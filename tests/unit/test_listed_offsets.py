"""Offsets of partitions whose leader is just changing are asked for again.

librdkafka's admin client caches the leader's epoch for 15 minutes, and a leader refuses an old one.
Each batch after a broker's restart waited 10 s for an answer, and concluded nothing from silence.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.protocol.errors import BrokerError
from checkback.sinks.kafka.cluster.transient_errors import LEADER_MOVES, PAUSE_S
from checkback.sinks.kafka.read.list_offsets import listed_offsets

COMMITTED = IsolationLevel.READ_COMMITTED


@dataclass
class Answer:
    code: int | None
    leader_epoch: int | None = None

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


@pytest.mark.parametrize("code", [*sorted(LEADER_MOVES), KafkaError._TIMED_OUT])
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
        (KafkaError._TIMED_OUT, 0),
    ],
)
def test_what_does_not_pass_names_the_partition(code: int, retry_s: float) -> None:
    leaders = Leaders({1: [code] * 10})

    with pytest.raises(BrokerError, match="offsets of t-1 can't be read") as refused:
        offsets(leaders, retry_s)
    assert (refused.value.fields["topic"], refused.value.fields["partition"]) == ("t", 1)
    assert leaders.asked == [[0, 1]]


TOPIC = b"half"
PRODUCER = 0


@dataclass
class MockBroker:
    """A broker of librdkafka's mock cluster, in this process."""

    library: ctypes.CDLL
    cluster: ctypes.c_void_p
    bootstrap_servers: str

    def restart(self) -> None:
        """Let the broker be elected again, which begins another epoch."""
        partition, broker = ctypes.c_int32(0), ctypes.c_int32(1)
        failed = self.library.rd_kafka_mock_partition_set_leader(
            self.cluster, TOPIC, partition, broker
        )
        assert not failed


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    # Of confluent-kafka's own copy, whichever way it is linked.
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    for function in ("conf_new", "new", "mock_cluster_new"):
        getattr(library, f"rd_kafka_{function}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p

    configuration = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(configuration, b"log_level", b"0", None, ctypes.c_size_t(0))
    owner = ctypes.c_void_p(library.rd_kafka_new(PRODUCER, configuration, None, ctypes.c_size_t(0)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(owner, 1))
    library.rd_kafka_mock_topic_create(cluster, TOPIC, 1, 1)
    address = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    yield MockBroker(library, cluster, address)
    library.rd_kafka_mock_cluster_destroy(cluster)
    library.rd_kafka_destroy(owner)


def test_offsets_are_listed_once_a_broker_is_back(broker: MockBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    place = (TOPIC.decode(), 0)

    def ends(retry_s: float) -> dict[tuple[str, int], int]:
        every = IsolationLevel.READ_UNCOMMITTED
        return listed_offsets(admin, [place], OffsetSpec.latest(), every, 5, retry_s=retry_s)

    broker.restart()  # so that there is an epoch to cache
    assert ends(retry_s=0) == {place: 0}
    broker.restart()

    assert ends(retry_s=5) == {place: 0}
    assert ends(retry_s=0) == {place: 0}, "the new epoch is cached"
