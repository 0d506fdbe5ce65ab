"""What a service knows of topics, and its producers: Kafka's worst times are found here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from checkback.protocol.errors import NotFoundError
from checkback.protocol.topics import TopicNames
from checkback.testing.fake_kafka import Cluster, FakeProducer, Fault
from checkback.testing.fake_kafka.errors import timed_out

DIRECT_OP = TopicNames().direct_op


class Facts:
    """What the client knows of topics: here, all there is to know."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def topic(self, name: str) -> Any:
        if name not in self._cluster.topics:
            raise NotFoundError(f"There is no topic {name}.")
        partitions = self._cluster.topics[name].partitions
        return SimpleNamespace(leaders=dict.fromkeys(range(len(partitions))))

    def takes_transactions(self, topic: str, _: bytes | None) -> bool:
        return topic in self._cluster.topics


class Sender(FakeProducer):
    """A producer whose held up commit arrives between a final and its op, if it can."""

    def produce(self, *record: Any, **more: Any) -> None:
        super().produce(*record, **more)
        coordinator, now_ms = self._cluster.coordinator, self._cluster.clock.now_ms
        own = [one for one in coordinator.late_commits if one.transactional_id == self._id]
        if own and record[0] != DIRECT_OP:
            self._send()
            others = [one for one in coordinator.late_commits if one not in own]
            coordinator.late_commits = others + [one._replace(arrives_ms=now_ms) for one in own]


class Fencer(FakeProducer):
    """A producer that fences another process's session, if its brokers answer in time."""

    def init_transactions(self, timeout: float = -1) -> None:
        if self._cluster.enter("fence") is Fault.HANGS:
            self._cluster.sleep(timeout * 1_000)
            raise timed_out("init_transactions")
        super().init_transactions(timeout)
