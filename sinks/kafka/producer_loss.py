"""Why a producer was lost: too slow, no answer from the brokers, or another one took over."""

from __future__ import annotations

from checkback.protocol.errors import BrokerError, CheckbackError, FencedError
from checkback.sinks.kafka.settings import SinkSettings
from checkback.sinks.kafka.transaction import ProducerLostError


def explain_loss(
    error: ProducerLostError, settings: SinkSettings, batch_id: int, open_ms: int
) -> CheckbackError:
    """Return the error that ends a batch after its producer was lost again and again.

    Args:
        error: the last loss.
        settings: the sink's.
        batch_id: Spark's batch.
        open_ms: how long the last transaction had been open when its producer was lost.
    """
    if open_ms < settings.transaction_timeout_ms:
        kind = BrokerError if error.was_unanswered else FencedError
        return kind(error.message, remedy=error.remedy)
    return BrokerError(
        f"Batch {batch_id} took longer to write than sink_transaction_timeout_ms, which is "
        f"{settings.transaction_timeout_ms}: the brokers aborted its transaction after that.",
        remedy=f"Set sink_transaction_timeout_ms to {3 * open_ms} or more (the brokers' "
        "transaction.max.timeout.ms has to allow it), or batch_events_max lower.",
        batch_id=batch_id,
        open_ms=open_ms,
        timeout_ms=settings.transaction_timeout_ms,
    )
