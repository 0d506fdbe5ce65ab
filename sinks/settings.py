"""The settings that a sink task needs; they travel to every task of every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkback.protocol.configuration import Settings
from checkback.protocol.topics import TopicNames


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Settings of the exactly-once Kafka sink.

    Args:
        query_id: Spark's id of the query; it comes from the checkpoint and survives restarts, so
            a new checkpoint never meets the markers of an old one.
        transaction_timeout_ms: after which the broker aborts an abandoned transaction.
        epoch: number of the job's epoch; see sinks/kafka/transaction/epoch.py.
        processes: how many sink processes an executor has; None: one for each core of its host.
        transaction_rows_max: how many decided rows one transaction holds; a state partition's part
            of a batch that has more is written in several.
    """

    pipeline: Settings
    query_id: str
    connection: Mapping[str, Any]
    transaction_timeout_ms: int
    epoch: int = 0
    processes: int | None = None
    transaction_rows_max: int = 100_000

    @property
    def topics(self) -> TopicNames:
        """The names of the topics."""
        return self.pipeline.topics

    @property
    def marker_group(self) -> str:
        """Consumer group that holds the batch markers as offsets on the settled topic."""
        return f"{self.pipeline.application_id}-marker-{self.query_id}"

    def transactional_id(self, state_partition: int) -> str:
        """Return a state partition's transactional id; who initialised it last may write."""
        return f"{self.pipeline.application_id}-{self.query_id}-{state_partition}"

    def __repr__(self) -> str:
        # Tasks print their arguments when they fail; the connection may hold a password.
        return f"SinkSettings({self.pipeline.application_id!r}, query_id={self.query_id!r})"
