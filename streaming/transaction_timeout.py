"""How long a Kafka transaction of the sink may stay open before the broker aborts it.

Long enough for the longest batch, or the batch can never be written; no longer than needed, because
whoever reads committed waits for a transaction that a lost machine left open.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError

LEAST_MS: Final = 60_000
TIMES_A_BATCH: Final = 10
BROKER_DEFAULT_MS: Final = 900_000
REQUEST_TIMEOUT_S: Final = 10.0
LIMIT: Final = "transaction.max.timeout.ms"


def choose_timeout_ms(settings: Settings, limit_ms: int | None, batch_ms: int | None) -> int:
    """Return the timeout: as set, else by the rule.

    The rule: ten times an ordinary batch of this checkpoint, or the trigger interval if that is
    longer, at least a minute, at most what the brokers allow.

    Args:
        settings: may say it.
        limit_ms: what the brokers allow at most, None where this user may not look.
        batch_ms: how long an ordinary batch takes, None for a new checkpoint.

    Raises:
        ConfigurationError: set longer than the brokers allow.
    """
    allowed_ms = BROKER_DEFAULT_MS if limit_ms is None else limit_ms
    chosen_ms = settings.sink_transaction_timeout_ms
    if chosen_ms is None:
        by_batch_ms = TIMES_A_BATCH * (batch_ms or 0)
        return min(max(LEAST_MS, settings.trigger_interval_ms, by_batch_ms), allowed_ms)
    if limit_ms is not None and chosen_ms > limit_ms:
        raise ConfigurationError(
            f"sink_transaction_timeout_ms is {chosen_ms}, the brokers allow no more than "
            f"{limit_ms}.",
            remedy=f"Set it to {limit_ms} or less, or raise {LIMIT} on the brokers.",
            key="sink_transaction_timeout_ms",
            value=chosen_ms,
            limit_ms=limit_ms,
        )
    return chosen_ms


def ordinary_batch_ms(planned: Mapping[int, int], committed: Mapping[int, int]) -> int | None:
    """Return the median time from plan to commit, None without a committed batch.

    The median, because a batch that a stop cut in two seems to have taken as long as the stop.

    Args:
        planned: by batch, when it was planned.
        committed: by batch, when it was committed.
    """
    times = [committed[batch] - planned[batch] for batch in planned.keys() & committed.keys()]
    return max(0, int(median(times))) if times else None


def broker_limit_ms(admin: AdminClient) -> int | None:
    """Return the least transaction.max.timeout.ms of the brokers, None if it may not be seen."""
    cluster: Any = admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
    nodes = cluster.result(2 * REQUEST_TIMEOUT_S).nodes
    resources = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in nodes]
    asked = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    try:
        found = [one.result(2 * REQUEST_TIMEOUT_S)[LIMIT].value for one in asked.values()]
    except (KafkaException, KeyError):
        return None
    return min((int(value) for value in found if value), default=None)
