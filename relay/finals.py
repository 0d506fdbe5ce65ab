"""Makes the finals of clean commits with the sink's own code (rule 3)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from checkback.protocol.errors import BrokerError
from checkback.protocol.refusals import RecordOrigin
from checkback.protocol.topics import TopicNames
from checkback.relay.memory import HeldHalf
from checkback.sinks.kafka.cluster.topic_directory import (
    LIBRDKAFKA_BATCH_BYTES,
    KnownTopic,
    TopicDirectory,
)
from checkback.sinks.records.router import Router, as_target
from checkback.sinks.records.sink_record import SinkRecord

LOOK_S: Final = 1.0
"""The least time between two listings of the topics, for unknown real topics."""
LEFT_TO_JOB_S: Final = 10.0
"""How long the job gets all commits of a topic that took no record. A dead broker's partitions have
another leader within nine seconds (broker.session.timeout.ms)."""


@dataclass(slots=True)
class Finals:
    """Makes finals, and knows which real topics can take them.

    Args:
        message_bytes_max: the largest record that a producer of the relay sends.
    """

    names: TopicNames
    directory: TopicDirectory
    message_bytes_max: int
    clock_s: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: int(time.time() * 1_000)
    _targets: dict[str, KnownTopic | None] = field(default_factory=dict)
    """None where a topic can't take finals, or brokers did not say: until the next listing."""
    _left_to_job: dict[str, float] = field(default_factory=dict)
    _look_s: float = 0.0
    _router: Router = field(init=False)

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Allow new requests to the brokers when it is time; call this before each group."""
        now_s = self.clock_s()
        self._router = Router(self.names, self._find, self.now_ms())
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            self.directory.allow_refresh()
            self._targets.clear()
            self._left_to_job = {
                topic: until for topic, until in self._left_to_job.items() if until > now_s
            }

    def leave_to_job(self, topic: str) -> None:
        """Leave a topic that rejected a record to the job for a while."""
        self._left_to_job[topic] = self.clock_s() + LEFT_TO_JOB_S

    def make(self, half: HeldHalf, partition: int, offset: int) -> SinkRecord | None:
        """Return the sink's final of a half; None where the job has to judge."""
        try:
            made = self._router.final(half.record, RecordOrigin(self.names.half, partition, offset))
        except Exception:  # the sink can't make a final of it either
            return None
        return made if isinstance(made, SinkRecord) else None

    def _find(self, topic: str) -> KnownTopic | None:
        if topic in self._left_to_job:
            return None
        if topic not in self._targets:
            found: KnownTopic | None = None
            with suppress(BrokerError):
                found = self.directory.find(topic)
            # Smaller batches have to be split, which only the sink can.
            if found is not None and found.record_batch_bytes_max < LIBRDKAFKA_BATCH_BYTES:
                found = None
            self._targets[topic] = found and as_target(
                topic, found, self.names, self.message_bytes_max
            )
        return self._targets[topic]
