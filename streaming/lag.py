"""How far the pipeline has read, as committed offsets of a consumer group.

Spark keeps its offsets in the checkpoint and commits none to Kafka, so tools that tell a group's
lag see nothing (RocketMQ's brokers write consumerOffset.json for theirs). They are for those tools
only: nothing is ever read back, so they may be late, missing, or written by somebody else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

INTERVAL_S: Final = 1.0
REQUEST_TIMEOUT_S: Final = 10.0
LAST_WAIT_S: Final = 2.0

Ends = Mapping[tuple[str, int], int]
"""Topic and partition, next offset."""


@dataclass(slots=True)
class OffsetPublisher:
    """Commits the end offsets of batches under the application's name; never waits, never fails.

    Args:
        group: the consumer group: the application id.
        admin: gives the client when it is first needed.
        now_s: a clock that only goes forward.
    """

    group: str
    admin: Callable[[], AdminClient]
    now_s: Callable[[], float] = time.monotonic
    _published: Ends = field(default_factory=dict)
    _asked: Future[Any] | None = None
    _asked_s: float = float("-inf")

    def is_due(self) -> bool:
        """Tell whether the last request is answered and a second old."""
        is_open = self._asked is not None and not self._asked.done()
        return not is_open and self.now_s() - self._asked_s >= INTERVAL_S

    def publish(self, progress: Mapping[str, Any] | None) -> None:
        """Commit what the last finished batch has read, if that is new.

        Args:
            progress: Spark's progress of the last batch, None before the first.
        """
        ends = end_offsets(progress)
        if not ends or ends == self._published:
            return
        self._asked_s = self.now_s()
        wanted = [TopicPartition(topic, at, end) for (topic, at), end in ends.items()]
        with suppress(KafkaException):
            asked: Any = self.admin().alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self.group, wanted)],
                request_timeout=REQUEST_TIMEOUT_S,
            )
            self._asked = asked[self.group]
            self._published = ends

    def publish_last(self, progress: Mapping[str, Any] | None) -> None:
        """Commit where the job ends, and give the brokers a moment to answer."""
        self.publish(progress)
        if self._asked is not None:
            with suppress(KafkaException, FutureTimeoutError):
                self._asked.result(LAST_WAIT_S)


def end_offsets(progress: Mapping[str, Any] | None) -> Ends:
    """Return where a batch ended on each partition that it read."""
    sources = progress["sources"] if progress is not None else []
    return {
        (topic, int(at)): int(end)
        for source in sources
        for topic, partitions in _as_object(source["endOffset"]).items()
        for at, end in partitions.items()
    }


def _as_object(offset: Any) -> Mapping[str, Any]:
    return dict(json.loads(offset)) if isinstance(offset, str) else dict(offset or {})
