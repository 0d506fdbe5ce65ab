"""Offsets after a broker came back as leader: librdkafka over its own mock of Kafka.

Its admin client caches the leader's epoch for 15 minutes, and a leader refuses an old one. Each
batch after a broker's restart waited 10 s for an answer, and concluded nothing from silence.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient, OffsetSpec

from checkback.sinks.kafka.read.list_offsets import listed_offsets

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
