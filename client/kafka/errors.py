"""What a Kafka error says about a message: not stored, stored but not safely, or unknown."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from checkback.client.results import SendStatus

REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.INVALID_RECORD,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._QUEUE_FULL,
        KafkaError._STATE,
    }
)
"""Errors that prove that the record is not stored, and that the next broker would return, too:
rights, sizes and formats (RocketMQ tries an ACL refusal three times).

Connections, timeouts and leaders that move prove nothing.
NOT_ENOUGH_REPLICAS is not among them: an earlier try of librdkafka's may have been appended by a
leader that lost its replicas then, and confluent-kafka does not report earlier tries.
NOT_LEADER is not either: a leader that is replaced while it waits for its replicas answers so for a
record that it did append (DelayedProduce), and the new leader may have it.
"""

NOT_SAFELY_STORED: Final = {
    KafkaError.REQUEST_TIMED_OUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""By error of a leader that has the record while the replicas may not have it: its status."""


def cause_of(raised: object) -> KafkaError:
    """Return the error in whatever a call of librdkafka's Python face raised.

    When an instance is fenced while its reports are served, that is a KafkaError, which is no
    exception and only caught by an ``except`` without a class; or a SystemError that hides it.
    """
    while isinstance(raised, SystemError) and raised.__cause__ is not None:
        raised = raised.__cause__
    if isinstance(raised, KafkaException):
        raised = raised.args[0]
    if isinstance(raised, KafkaError):
        return raised
    return KafkaError(KafkaError._FAIL, f"{type(raised).__name__}: {raised}")
