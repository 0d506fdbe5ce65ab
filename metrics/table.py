"""The table of all metrics; endpoint and docs page are made of it.

The names follow RocketMQ's (`rocketmq_half_messages` is `checkback_half_messages`). Every label
has few values: each `Label` lists them or says what bounds them. No label of the pipeline is a
key, the id of a transaction or a group; an application's own producer has its group as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from checkback.protocol.refusals import RefusedReason


class Kind(StrEnum):
    """Prometheus' kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a metric.

    Args:
        values: its values, where they are known beforehand; the series of all of them exist from
            the start, so that a rate sees the first event.
        bound: why it has few values, where they are known only at run time.
    """

    name: str
    values: tuple[str, ...] = ()
    bound: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Args:
        buckets: upper bounds of a histogram's buckets, in its unit, without infinity.
        of_client: whether an application's producer has it, not the pipeline.
        of_relay: whether a relay has it, not the job.
    """

    kind: Kind
    name: str
    unit: str
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    of_client: bool = False
    of_relay: bool = False


CHECK_OUTCOMES: Final = ("sent", "undelivered")
DISCARD_REASONS: Final = ("check_limit", "expired")
REFUSED_REASONS: Final = tuple(reason.name for reason in RefusedReason)
RECORD_KINDS: Final = (
    "halves", "repeated_halves", "commits", "rollbacks", "unknown_ops", "repeated_ops",
    "ops_waiting", "refusals",
)  # fmt: skip
"""What a record that was read can be; each is counted as one of these."""
TOPICS_READ: Final = ("half", "op", "feedback", "decided")
"""The last one only with a relay."""
STAGES: Final = (
    "latest_offset", "get_batch", "query_planning", "wal_commit", "add_batch", "commit_offsets",
    "trigger_execution",
)  # fmt: skip
"""Spark's stages of a micro-batch; the last is the whole batch."""
RELAY_OUTCOMES: Final = (
    "delivered", "early", "unreadable", "no_verdict", "half_not_held", "half_hidden", "rollback",
    "not_accepted", "order", "real_topic", "transaction_failed",
)  # fmt: skip
"""What a relay makes of an op: the first three, or why it is passed to the job."""
CLIENT_EVENTS: Final = (
    "sent", "send_failed", "send_in_doubt", "doubt_settled", "send_retried", "committed",
    "rolled_back", "unknown", "listener_failed", "op_failed", "check_received", "check_answered",
    "check_skipped", "check_unreadable", "delay_dropped",
)  # fmt: skip
FINISH_BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 60.0, 600.0, 3_600.0, 43_200.0, 86_400.0)
BATCH_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

_counter: Final = partial(Metric, Kind.COUNTER)
_gauge: Final = partial(Metric, Kind.GAUGE)
_histogram: Final = partial(Metric, Kind.HISTOGRAM)
_relay_counter: Final = partial(_counter, of_relay=True)
_relay_gauge: Final = partial(_gauge, of_relay=True)
# fmt: off
TABLE: Final = (
    _gauge("checkback_half_messages", "halves", "Half messages without a verdict now."),
    _gauge("checkback_oldest_pending_age_seconds", "seconds",
        "Age of the oldest half message without a verdict; 0 if there is none."),
    _gauge("checkback_pending_bound_seconds", "seconds",
        "Age at which the checks of a half without an immunity time of its own are used up: "
        "transaction_timeout_ms + check_max * check_interval_ms, at most half_retention_ms."),
    _counter("checkback_commit_messages_total", "halves", "Half messages that were committed."),
    _counter("checkback_delivered_messages_total", "halves",
        "Committed half messages with a final message written before the pipeline settled them."),
    _counter("checkback_delivered_refused_total", "ops",
        "Ops that say delivered and met another verdict; must stay 0."),
    _counter("checkback_rollback_messages_total", "halves", "Half messages that were rolled back."),
    _histogram("checkback_finish_message_latency", "seconds",
        "Time from the storing of a half message to the batch that commits it or rolls it back.",
        buckets=FINISH_BUCKETS_S),
    _counter("checkback_final_messages_total", "messages",
        "Final messages that the job wrote to real topics. A relay counts its own as ops."),
    _counter("checkback_checks_total", "requests",
        "Check requests: sent, or undelivered because the group has no check topic.",
        (Label("outcome", CHECK_OUTCOMES),)),
    _gauge("checkback_check_backlog", "halves",
        "Half messages that are due for a check and wait for their turn (checks_per_batch_max)."),
    _counter("checkback_discarded_total", "messages",
        "Half messages given up and written to the discarded topic.",
        (Label("reason", DISCARD_REASONS),)),
    _counter("checkback_refused_total", "records",
        "Records written to the refused topic.", (Label("reason", REFUSED_REASONS),)),
    _gauge("checkback_groups_without_members", "groups",
        "Producer groups that were asked lately and have no live member, or no check topic."),
    _counter("checkback_records_read_total", "records",
        "Halves and ops read, by what became of them.", (Label("kind", RECORD_KINDS),)),
    _gauge("checkback_lag_records", "records",
        "Records on a topic that can be read and were not, by where the brokers say that it "
        "ends.", (Label("topic", TOPICS_READ),)),
    _gauge("checkback_oldest_unread_age_seconds", "seconds",
        "Age of the oldest of these records since a look at the brokers first found it; 0 if "
        "all are read.", (Label("topic", TOPICS_READ),)),
    _gauge("checkback_unread_still_seconds", "seconds",
        "For how long records have waited on a partition of which nothing was read meanwhile; "
        "the longest of the topic's partitions, 0 if reading goes on.",
        (Label("topic", TOPICS_READ),)),
    _gauge("checkback_stalled_partitions", "partitions",
        "Partitions that are not read further, because a producer has a Kafka transaction open "
        "there; the progress line names it.", (Label("topic", TOPICS_READ),)),
    _gauge("checkback_stall_seconds", "seconds",
        "For how long each of these partitions has not been read further, and by which "
        "producer's transaction; no series if there is none.",
        (
            Label("topic", TOPICS_READ),
            Label("partition", bound="the partitions of these topics"),
            Label("producer_id", bound="one for each partition that stands still; -1 if unknown"),
        )),
    _gauge("checkback_short_topics", "topics",
        "Topics that lack replicas, so that a batch waits until the brokers can end its "
        "transaction there; the progress line names them."),
    _counter("checkback_batches_total", "batches", "Batches written."),
    _histogram("checkback_batch_write_seconds", "seconds",
        "Time of a batch's one job: reading, deciding and writing.", buckets=BATCH_BUCKETS_S),
    _gauge("checkback_batch_stage_seconds", "seconds",
        "Time that a stage of the last batch took; trigger_execution is the whole batch.",
        (Label("stage", STAGES),)),
    _gauge("checkback_last_batch_timestamp_seconds", "seconds since 1970",
        "When the last batch was written; 0 before the first."),
    _gauge("checkback_state_rows", "rows", "Rows of the state: pages that are remembered."),
    _gauge("checkback_state_bytes", "bytes", "What the rows of the state take up, packed."),
    _counter("checkback_native_fallbacks_total", "tries",
        "Tries to write a state partition's batch without the sink's compiled part."),
    _gauge("checkback_access_rules_broken", "0 or 1",
        "1 while the access rules can't be read or have mistakes; those before stay in force."),
    _gauge("checkback_ready", "0 or 1", "1 where /readyz answers 200, else 0."),
    _gauge("checkback_build_info", "1",
        "Always 1; the label is the version that runs.",
        (Label("version", bound="one process runs one version"),)),
    _relay_counter("checkback_relay_ops_total", "ops",
        "What a relay made of ops: delivered, early, unreadable, or why it passed them on.",
        (Label("outcome", RELAY_OUTCOMES),)),
    _relay_counter("checkback_relay_groups_total", "transactions",
        "Kafka transactions in which a relay decided ops."),
    _relay_counter("checkback_relay_failed_total", "transactions",
        "Kafka transactions of a relay that failed; their ops were passed to the job."),
    _relay_gauge("checkback_relay_waiting_ops", "ops",
        "Ops that a relay has read and not decided."),
    _relay_gauge("checkback_relay_oldest_op_age_seconds", "seconds",
        "How long the oldest of them has waited; 0 where none waits."),
    _relay_gauge("checkback_relay_partitions", "partitions", "Partitions that a relay serves."),
    _relay_gauge("checkback_relay_memory_bytes", "bytes",
        "What the half messages that a relay holds take, about."),
    _relay_gauge("checkback_relay_ready", "0 or 1",
        "1 where the relay's /readyz answers 200, else 0."),
    _counter("checkback_client_events_total", "events",
        "What an application's producer counted.",
        (
            Label("group", bound="the producer groups of one process, usually one"),
            Label("event", CLIENT_EVENTS),
        ), of_client=True),
)
# fmt: on
PIPELINE: Final = tuple(one for one in TABLE if not one.of_client and not one.of_relay)
RELAY: Final = tuple(one for one in TABLE if one.of_relay)
