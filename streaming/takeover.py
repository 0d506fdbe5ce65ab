"""Taking a checkpoint over at start: nothing is missing, nobody else writes, nothing hangs."""

from __future__ import annotations

from dataclasses import replace

from checkback.checkpoints.folder import CheckpointFolder
from checkback.protocol.configuration import Settings
from checkback.sinks.session import begin_session
from checkback.sinks.settings import SinkSettings
from checkback.streaming.preflight import ClusterFacts, require_markers
from checkback.streaming.session import state_partitions
from checkback.streaming.transaction_timeout import choose_timeout_ms, ordinary_batch_ms


def take_over(
    sink: SinkSettings, settings: Settings, facts: ClusterFacts, folder: CheckpointFolder
) -> SinkSettings:
    """Return the sink's settings with the job's own session, which ends every older one.

    Args:
        sink: the sink's settings, with the checkpoint's query id.
        settings: the job's.
        facts: what the brokers allow.
        folder: the checkpoint.

    Raises:
        CheckpointError: markers and checkpoint contradict each other.
        ConfigurationError: the transaction timeout is longer than the brokers allow.
        FencedError: a younger job took over meanwhile.
        BrokerError: Kafka did not take it.
    """
    batch_ms = ordinary_batch_ms(folder.batch_times_ms("offsets"), folder.batch_times_ms("commits"))
    timeout_ms = choose_timeout_ms(settings, facts.transaction_timeout_max_ms, batch_ms)
    timed = replace(sink, transaction_timeout_ms=timeout_ms)
    partitions = state_partitions(settings)
    marked = require_markers(timed, partitions, folder)
    committed = folder.last_batch("commits")
    # All that is committed is written: a state partition that never had a marker begins behind it.
    return begin_session(timed, partitions, marked, 0 if committed is None else committed + 1)
