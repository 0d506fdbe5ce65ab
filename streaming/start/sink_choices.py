"""Makes the sink's settings and its ledger from the settings of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkback.protocol.configuration import Settings
from checkback.sinks.settings import SinkSettings
from checkback.streaming.spark.cores import executor_cores
from checkback.streaming.start.transaction_timeout import LEAST_MS

if TYPE_CHECKING:
    from checkback.sinks.ledger.table import DeltaLedger
    from checkback.streaming.start.preflight import ClusterFacts


def sink_settings(settings: Settings, connection: dict[str, Any], query_id: str) -> SinkSettings:
    """Return the settings of the sink."""
    timeout_ms = settings.sink_transaction_timeout_ms or LEAST_MS
    processes = executor_cores(settings)
    return SinkSettings(settings, query_id, connection, timeout_ms, processes=processes)


def open_ledger(settings: Settings, facts: ClusterFacts) -> DeltaLedger | None:
    """Return the ledger in the settings, made if it is new; None where none is set.

    Raises:
        ConfigurationError: the table there is another's.
        PrerequisiteError: it can't be written.
    """
    if not settings.ledger:
        return None
    from checkback.sinks.ledger.table import (  # delta-rs is for those with one
        DeltaLedger,
        LedgerOwner,
    )

    topic_id = facts.topics[settings.topics.half].topic_id
    owner = LedgerOwner(settings.application_id, topic_id)
    return DeltaLedger.open_or_create(settings.ledger, owner)
