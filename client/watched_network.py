"""Looks on where a Kafka producer's requests go on the wire and their answers come back.

kafka-python takes the class of its network client as a setting (``kafka_client``); this one tells
a watch what is certain about each partition, and a fault table how fast each leader answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
)
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.protocol.producer import ProduceRequest

from checkback.client.fault_tolerance import FaultTable
from checkback.client.partition_watch import PartitionWatch

BATCH_IDENTITY: Final = slice(43, 57)
"""Producer id, producer epoch and base sequence in a record batch of format 2 (KIP-98)."""


BROKERS_SHARE: Final = 0.8
"""Of the time an answer is waited for. kafka-python gives the leader all of it to wait for the
replicas, so that its word that they are late comes too late."""


class WatchedNetwork(KafkaNetClient):  # type: ignore[misc]  # kafka-python has no types
    """The network client of one producer.

    Args:
        watched_topic: the topic whose partitions are followed.
        watch: is told; its barred partitions get nothing.
        faults: is told; its clock is the monotonic one, in milliseconds.
        opened: called with this object once, so that its owner can read the cluster's state.
        settings: kafka-python's.
    """

    def __init__(
        self,
        watched_topic: str,
        watch: PartitionWatch,
        faults: FaultTable,
        opened: Callable[[Any], None],
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._watched_topic = watched_topic
        self._watch = watch
        self._faults = faults
        opened(self)

    def send(self, node_id: int, request: Any, **options: Any) -> Any:
        """Send a request, without what is for barred partitions."""
        if not isinstance(request, ProduceRequest):
            return super().send(node_id, request, **options)
        passing = self._keep_passing(request)
        if not request.topic_data:
            # Never answered: the producer lets go of barred batches when their time is over.
            return Future()
        request.timeout_ms = int(request.timeout_ms * BROKERS_SHARE)
        started_ms = _now_ms()
        sent = super().send(node_id, request, **options)
        seen = Future()
        sent.add_callback(self._answered, node_id, started_ms, seen)
        sent.add_errback(self._failed, node_id, passing, seen)
        return seen

    def _keep_passing(self, request: Any) -> list[int]:
        """Take barred partitions out of a request; return the watched ones that stay."""
        passing = []
        for topic in request.topic_data:
            if topic.name == self._watched_topic:
                kept = [one for one in topic.partition_data if self._passes(one)]
                topic.partition_data = kept
                passing = [one.index for one in kept]
        request.topic_data = [topic for topic in request.topic_data if topic.partition_data]
        return passing

    def _passes(self, data: Any) -> bool:
        return self._watch.may_pass(data.index, bytes(data.records[BATCH_IDENTITY]))

    def _answered(self, node_id: int, started_ms: float, seen: Any, response: Any) -> None:
        now_ms = _now_ms()
        self._faults.answered(node_id, now_ms - started_ms, now_ms)
        for topic in response.responses:
            for answer in topic.partition_responses:
                if topic.name != self._watched_topic:
                    continue
                if self._watch.answered(answer.index, answer.error_code):
                    self._faults.failed(node_id, now_ms, reachable=True)
        seen.success(response)

    def _failed(self, node_id: int, passing: list[int], seen: Any, error: BaseException) -> None:
        unsent = isinstance(error, NodeNotReadyError)
        reachable = not isinstance(error, KafkaConnectionError)
        self._faults.failed(node_id, _now_ms(), reachable=reachable)
        for partition in passing:
            if unsent:
                self._watch.not_sent(partition)
            else:
                self._watch.lost(partition)
        # Its own timeout kafka-python tells with the class of the broker's REQUEST_TIMED_OUT,
        # which says that the leader has the record.
        local = KafkaTimeoutError(str(error)) if isinstance(error, RequestTimedOutError) else error
        seen.failure(local)


def _now_ms() -> float:
    return time.monotonic() * 1000
