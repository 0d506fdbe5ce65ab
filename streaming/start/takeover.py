"""Fences older jobs at a start: checks the markers, begins an epoch, ends open transactions."""

from __future__ import annotations

from dataclasses import replace

from checkback.checkpoints.store import CheckpointStore
from checkback.protocol.configuration import Settings
from checkback.sinks.kafka.transaction.epoch import begin_epoch
from checkback.sinks.settings import SinkSettings
from checkback.streaming.spark.cores import state_partitions
from checkback.streaming.start.preflight import ClusterFacts, require_markers
from checkback.streaming.start.transaction_timeout import choose_timeout_ms, ordinary_batch_ms


def fence_older(
    sink: SinkSettings, settings: Settings, facts: ClusterFacts, store: CheckpointStore
) -> SinkSettings:
    """Begin the job's epoch, which fences every older job; return the sink's settings with it.

    Raises:
        CheckpointError: markers and checkpoint contradict each other.
        ConfigurationError: the transaction timeout is longer than the brokers allow.
        FencedError: a newer job took over meanwhile.
        BrokerError: Kafka refused.
    """
    batch_ms = ordinary_batch_ms(store.batch_times_ms("offsets"), store.batch_times_ms("commits"))
    timeout_ms = choose_timeout_ms(settings, facts.transaction_timeout_max_ms, batch_ms)
    timed = replace(sink, transaction_timeout_ms=timeout_ms)
    partitions = state_partitions(settings)
    # Step 1: the markers belong to this checkpoint. preflight.py has compared the topics.
    marked = require_markers(timed, partitions, store)
    committed = store.last_batch("commits")
    # Step 2: take the epoch, which fences the predecessor.
    # Every committed batch is written, so a state partition without a marker begins after the last
    # one.
    return begin_epoch(timed, partitions, marked, 0 if committed is None else committed + 1)
