"""What a sink task has to know; small, because it travels to every task of every batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkback.protocol.topics import TopicNames


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Settings of the exactly-once Kafka sink.

    Args:
        application_id: name of the deployment.
        query_id: Spark's id of the query; it comes from the checkpoint and survives restarts, so
            a new checkpoint never meets the markers of an old one.
        topic_prefix: prefix of Checkback's topics.
        connection: librdkafka settings that reach the brokers, secrets included.
        transaction_timeout_ms: after which the broker aborts an abandoned transaction.
        message_bytes_max: largest record that any topic of ours takes.
        epoch: number of the job's epoch; see sinks.kafka.epoch.
        keeps_ledger: whether tasks return ledger rows beside their reports.
        native_sink: whether plain finals go through the sink's compiled part, where there is one.
        check_interval_ms: the pipeline's, which check requests tell; None leaves it out.
        processes: how many sink processes an executor has; None: one for each core of its host.
        transaction_rows_max: how many decided rows one transaction holds; a state partition's part
            of a batch that has more is written in several.
        log_format: of the sink processes' own log lines.
        log_level: of the same; may change from batch to batch.
        rules_topic: the topic of the rules of access control; empty for none.
    """

    application_id: str
    query_id: str
    topic_prefix: str
    connection: Mapping[str, Any]
    transaction_timeout_ms: int
    message_bytes_max: int
    epoch: int = 0
    keeps_ledger: bool = False
    native_sink: bool = True
    check_interval_ms: int | None = None
    processes: int | None = None
    transaction_rows_max: int = 100_000
    log_format: str = "text"
    log_level: str = "WARNING"
    rules_topic: str = ""

    @property
    def topics(self) -> TopicNames:
        """The names of the topics."""
        return TopicNames(self.topic_prefix, self.rules_topic)

    @property
    def marker_group(self) -> str:
        """Consumer group whose offsets on the settled topic are the batch markers."""
        return f"{self.application_id}-marker-{self.query_id}"

    def transactional_id(self, state_partition: int) -> str:
        """Return a state partition's transactional id; who initialised it last may write."""
        return f"{self.application_id}-{self.query_id}-{state_partition}"

    def __repr__(self) -> str:
        # Tasks print their arguments when they fail; the connection may hold a password.
        return f"SinkSettings({self.application_id!r}, query_id={self.query_id!r})"
