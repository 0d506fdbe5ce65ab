"""What a Kafka error says of a message: surely not stored, stored but not safely, or unknown."""

from __future__ import annotations

from typing import Final

from kafka import errors

from checkback.client.results import SendStatus

REJECTED_CODES: Final = frozenset(
    kind.errno
    for kind in (
        errors.CorruptRecordError,
        errors.MessageSizeTooLargeError,
        errors.InvalidTopicError,
        errors.RecordListTooLargeError,
        errors.NotEnoughReplicasError,
        errors.InvalidRequiredAcksError,
        errors.TopicAuthorizationFailedError,
        errors.ClusterAuthorizationFailedError,
        errors.InvalidTimestampError,
        errors.PolicyViolationError,
        errors.OutOfOrderSequenceNumberError,
        errors.InvalidProducerEpochError,
        errors.UnknownProducerIdError,
        errors.UnsupportedCompressionTypeError,
        errors.InvalidRecordError,
    )
)
"""Answers that a broker gives before it appends: the record is certainly not stored.

NOT_LEADER is not among them: a leader that loses its office while it waits for the replicas says
so of a record that it did append (DelayedProduce), and the new leader may have it.
"""

ELSEWHERE_CODES: Final = frozenset({errors.NotEnoughReplicasError.errno})
"""Rejections that concern the partition: another one may take the record."""

RENEWING: Final = (
    errors.OutOfOrderSequenceNumberError,
    errors.InvalidProducerEpochError,
    errors.UnknownProducerIdError,
)
"""Rejections that concern the producer's sequence, which kafka-python then begins anew."""

STATUS_BY_CODE: Final = {
    errors.RequestTimedOutError.errno: SendStatus.FLUSH_SLAVE_TIMEOUT,
    errors.NotEnoughReplicasAfterAppendError.errno: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""Answers of a leader that has the record, of which the replicas are not sure."""

SUCCESS_CODES: Final = frozenset({0, errors.DuplicateSequenceNumberError.errno})


def is_certain_rejection(code: int) -> bool:
    """Tell whether a broker's answer means that the record is certainly not stored."""
    return code in REJECTED_CODES


def is_tried_again(error: BaseException) -> bool:
    """Tell whether a send that failed so may succeed when it is tried again.

    Connections, timeouts, leaders that move, too few replicas: yes. Rights, sizes and formats:
    no, the next broker would say the same (RocketMQ tries an ACL refusal three times).
    """
    return bool(getattr(error, "retriable", False)) or isinstance(error, RENEWING)


def not_safely_stored(error: BaseException) -> SendStatus | None:
    """Return the status of a record that the leader has and the replicas may not, else None."""
    code = getattr(error, "errno", None)
    return STATUS_BY_CODE.get(code) if isinstance(code, int) else None
