"""Publishes how far the pipeline has read, as committed offsets of a consumer group.

Spark keeps its offsets in the checkpoint and commits none to Kafka, so tools that show a group's
lag see nothing (RocketMQ's brokers write consumerOffset.json for them). The job never reads these
offsets back, so they may be late, missing or overwritten. Relays read them: until they have come
far enough, the keys of passed commits go the job's way (docs/decisions/relay.md, rule 10).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from checkback.sinks.kafka.read.list_offsets import Place

INTERVAL_S: Final = 1.0
ANSWER_POLL_S: Final = 0.05
LAST_WAIT_S: Final = 2.0

Ends = Mapping[Place, int]


@dataclass(slots=True)
class OffsetPublisher:
    """Commits how far written batches have read, for the application id; never waits or fails.

    It uses a consumer that reads nothing, because the Admin calls for a group's offsets abort the
    process if a broker's connection breaks at the wrong moment (librdkafka #3663, #4605; 2.16.1).

    Args:
        group: the consumer group: the application id.
    """

    group: str
    connection: Mapping[str, Any]
    now_s: Callable[[], float] = time.monotonic
    _consumer: Consumer | None = None
    _published: Ends = field(default_factory=dict)
    _is_asked: bool = False
    _asked_s: float = float("-inf")

    def is_due(self) -> bool:
        """Return whether the last request was answered and is at least a second old."""
        self._take_answer(0.0)
        return not self._is_asked and self.now_s() - self._asked_s >= INTERVAL_S

    def publish(self, ends: Ends) -> None:
        """Commit the end offsets of the last written batch if they are new."""
        if not ends or ends == self._published:
            return
        self._asked_s = self.now_s()
        wanted = [TopicPartition(topic, at, end) for (topic, at), end in ends.items()]
        with suppress(KafkaException):
            if self._consumer is None:
                self._consumer = self._new_consumer()
            self._consumer.commit(offsets=wanted, asynchronous=True)
            self._is_asked, self._published = True, ends

    def publish_last(self, ends: Ends) -> None:
        """Commit the job's last offsets, and wait a moment for the answer."""
        self.publish(ends)
        until_s = self.now_s() + LAST_WAIT_S
        while self._is_asked and self.now_s() < until_s:
            self._take_answer(ANSWER_POLL_S)
        if self._consumer is not None:
            close_for(self._consumer, LAST_WAIT_S)
            self._consumer = None

    def _new_consumer(self) -> Consumer:
        own = {"group.id": self.group, "enable.auto.commit": False, "on_commit": self._answered}
        return Consumer({**self.connection, **own})

    def _answered(self, error: object, _: object) -> None:
        self._is_asked = False
        if error is not None:  # a job that is idle has no newer offsets to make up for it
            self._published = {}

    def _take_answer(self, wait_s: float) -> None:
        if self._consumer is not None and self._is_asked:
            self._consumer.poll(wait_s)


def close_for(consumer: Consumer, wait_s: float) -> None:
    """Close a consumer, but wait no longer than that.

    librdkafka waits for a commit that has no answer. Who may not read the group never gets one, and
    to give that right is optional.
    """
    # A daemon: the process ends without it.
    closing = Thread(target=consumer.close, name="closing-offsets", daemon=True)
    closing.start()
    closing.join(wait_s)
