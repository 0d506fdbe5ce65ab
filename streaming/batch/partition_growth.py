"""Adds partitions to the other topics when the half topic has got more.

An op and a feedback stand in the partition of their half's number. Without it no producer can say
how its transaction ended, and the first check that finds no topic would end the job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from checkback.checkpoints.spark_files.logs import Offsets
from checkback.protocol.topics import TopicNames
from checkback.sinks.kafka.cluster.transient_errors import said_by

_log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0


@dataclass(slots=True)
class PartitionGrowth:
    """Compares the topics in the plan of each batch."""

    connection: Mapping[str, Any]
    topics: TopicNames
    _asked_for: int = field(default=0)

    def follow(self, ends: Offsets) -> None:
        """Grow the topics that have fewer partitions than the half topic; once for each number."""
        wanted = len(ends.get(self.topics.half, {}))
        decided = [self.topics.decided] if self.topics.decided in ends else []
        others = (*self.topics.read[1:], *decided)
        short = [topic for topic in others if len(ends.get(topic, {})) < wanted]
        if not short or wanted <= self._asked_for:
            return
        self._asked_for = wanted
        for topic, failed in self._grow(short, wanted).items():
            _log.warning(
                "%s has %d partitions and %s has fewer, which could not be added (%s): add them, or"
                " nobody can settle the halves in the others",
                self.topics.half,
                wanted,
                topic,
                failed,
            )

    def _grow(self, short: list[str], wanted: int) -> dict[str, str]:
        """Add the partitions; return by topic why that failed."""
        admin = AdminClient({**self.connection})
        asked = admin.create_partitions([NewPartitions(topic, wanted) for topic in short])
        failed = {}
        for topic, future in asked.items():
            try:
                future.result(TIMEOUT_S)
            except (KafkaException, TimeoutError) as error:
                failed[topic] = said_by(error)
            else:
                _log.warning("%s was given %d partitions, as %s", topic, wanted, self.topics.half)
        return failed
