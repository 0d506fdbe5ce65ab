"""Chooses how long a Kafka transaction of the sink may stay open before the broker aborts it.

The timeout must be long enough for the longest batch, or that batch can never be written. It should
be no longer than needed, because readers of committed records wait for a transaction that a lost
machine left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import ConfigurationError

LEAST_MS: Final = 60_000
TIMES_A_BATCH: Final = 10
SLACK_MS: Final = 1_000
BROKER_DEFAULT_MS: Final = 900_000
REQUEST_TIMEOUT_S: Final = 10.0
LIMIT: Final = "transaction.max.timeout.ms"


def choose_timeout_ms(settings: Settings, limit_ms: int | None, batch_ms: int | None) -> int:
    """Return the timeout: the setting, else a multiple of an ordinary batch.

    The rule: ten times an ordinary batch of this checkpoint, or the trigger interval if that is
    longer, at least a minute, at most what the brokers allow.

    Args:
        settings: may set the timeout.
        limit_ms: the longest timeout that the brokers allow, None if this user may not see it.
        batch_ms: how long an ordinary batch takes, None for a new checkpoint.

    Raises:
        ConfigurationError: the setting is longer than the brokers allow.
    """
    allowed_ms = BROKER_DEFAULT_MS if limit_ms is None else limit_ms
    chosen_ms = settings.sink_transaction_timeout_ms
    if chosen_ms is None:
        interval_ms = settings.trigger_interval_ms
        # A batch is held until the interval is over, so its own time is not known below that.
        held_ms = interval_ms + SLACK_MS if interval_ms else 0
        by_batch_ms = TIMES_A_BATCH * batch_ms if batch_ms and batch_ms > held_ms else 0
        return min(max(LEAST_MS, interval_ms, by_batch_ms), allowed_ms)
    if limit_ms is not None and chosen_ms > limit_ms:
        raise ConfigurationError(
            f"sink_transaction_timeout_ms is {chosen_ms}, but the brokers allow no more than "
            f"{limit_ms}.",
            remedy=f"Set it to {limit_ms} or less, or raise {LIMIT} on the brokers.",
            key="sink_transaction_timeout_ms",
            value=chosen_ms,
            limit_ms=limit_ms,
        )
    return chosen_ms


def ordinary_batch_ms(planned: Mapping[int, int], committed: Mapping[int, int]) -> int | None:
    """Return the lower quartile of the times from plan to commit, None without a committed batch.

    A batch that a stop interrupted seems to have taken as long as the stop; one that had nothing to
    do, as long as the pipeline slept at its end (streaming/batch/idle_wait.py).

    Args:
        planned: time of the plan by batch.
        committed: time of the commit by batch.
    """
    times = [committed[batch] - planned[batch] for batch in planned.keys() & committed.keys()]
    return max(0, sorted(times)[len(times) // 4]) if times else None


def broker_limit_ms(admin: AdminClient, nodes: Iterable[Any]) -> int | None:
    """Return the least transaction.max.timeout.ms of the brokers that say it, None if none does.

    This user may not be allowed to see it.
    """
    resources = [ConfigResource(ResourceType.BROKER, str(node.id)) for node in nodes]
    asked = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    return min(
        (said for one in asked.values() if (said := _told_ms(one)) is not None), default=None
    )


def _told_ms(answer: Any) -> int | None:
    with suppress(KafkaException, TimeoutError, KeyError):
        value = answer.result(2 * REQUEST_TIMEOUT_S)[LIMIT].value
        return int(value) if value else None
    return None
