"""Errors of transactional producers: rejected records, lost producers, and librdkafka's codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from checkback.protocol.errors import BrokerError, CheckbackError, FencedError
from checkback.sinks.records.sink_record import SinkRecord
from checkback.sinks.settings import SinkSettings

FENCED_CODES: Final = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
)

ABORTED_CODES: Final = frozenset({
    KafkaError.INVALID_TXN_STATE, KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.TRANSACTION_ABORTABLE,  # type: ignore[attr-defined]  # a stub's gap
})  # fmt: skip
"""Brokers answer so when the transaction is over or may be (KIP-890), or when the topic was made
again meanwhile. They have nothing against the record."""

PURGED_CODES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Reports of records that an abort took out of the queue: no broker rejected them."""

UNQUEUED_CODES: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._INVALID_ARG,
    }
)
"""Why librdkafka does not queue a record; the producer can go on."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that a broker did not take.

    Args:
        record: the record; None where records are not tracked.
    """

    topic: str
    partition: int
    code: int
    text: str
    record: SinkRecord | None = None


class RejectedOutputError(BrokerError):
    """Records were rejected. The producer is spent: init by the next one ends its transaction."""

    def __init__(self, rejections: list[Rejection]) -> None:
        first = rejections[0]
        super().__init__(f"Kafka rejected output for {first.topic}: {first.text}.")
        self.rejections = rejections


class ProducerLostError(BrokerError):
    """The producer can't be used any more: fenced, or a fatal error. A new one may go on."""

    was_rejected: bool = False
    """Whether the cause was a rejected record of which nothing more is known."""
    was_unanswered: bool = False
    """Whether the cause may be that the brokers did not answer, and no other writer."""


def unanswered(message: str) -> ProducerLostError:
    """Return the loss of a producer after a request that the brokers did not fulfil."""
    error = ProducerLostError(message, remedy="Check the brokers.")
    error.was_unanswered = True
    return error


def cause_of(error: KafkaException | SystemError) -> KafkaError:
    """Return the error code and text behind an exception.

    On a fatal error confluent-kafka leaves an exception pending while delivery reports still come
    in; Python then reports the callback as broken and chains the real cause to it.

    Raises:
        SystemError: it came from elsewhere.
    """
    inner: BaseException | None = error
    while isinstance(inner, SystemError):
        inner = inner.__cause__
    if not isinstance(inner, KafkaException) or not isinstance(inner.args[0], KafkaError):
        raise error
    return inner.args[0]


def explain_loss(
    error: ProducerLostError, settings: SinkSettings, batch_id: int, open_ms: int
) -> CheckbackError:
    """Return the error that ends a batch after its producer was lost again and again."""
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
