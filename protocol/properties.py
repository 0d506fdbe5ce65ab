"""Property names and values that stand in record headers.

Names and values are RocketMQ's (MessageConst, MessageSysFlag), so that its documentation applies.
A property is one Kafka header: the name as the header key, the value in UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Headers = list[tuple[str, bytes]]
"""Headers as both Kafka clients take and give them, a null value read as empty."""

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
UNIQ_KEY: Final = "UNIQ_KEY"
KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
DELAY: Final = "DELAY"
TIMER_PROPERTIES: Final = frozenset({"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"})
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRAN_HALF_QUEUE_ID: Final = "TRAN_HALF_QUEUE_ID"

COMMIT_OR_ROLLBACK: Final = "COMMIT_OR_ROLLBACK"
FROM_TRANSACTION_CHECK: Final = "FROM_TRANSACTION_CHECK"
REMARK: Final = "REMARK"
MANUAL_OPERATOR: Final = "MANUAL_OPERATOR"
"""On an op that a person appended (`checkback tx resolve`): who; REMARK says why."""

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - a header's name

TRANSACTION_NOT_TYPE: Final = 0
TRANSACTION_COMMIT_TYPE: Final = 8
TRANSACTION_ROLLBACK_TYPE: Final = 12

OP_TAG_REMOVE: Final = "d"
"""TAGS of an op, RocketMQ's REMOVE_TAG."""
OP_TAG_TICK: Final = "t"
"""TAGS of a tick: no op, only data that makes Spark look at timeouts again after a restart."""
OP_TAG_UNDELIVERED: Final = "u"
"""TAGS of the sink's feedback: a check request found no check topic, so it must not count."""

HALF_PROTOCOL_ORDER: Final = (
    TRAN_MSG,
    PGROUP,
    UNIQ_KEY,
    REAL_TOPIC,
    CHECK_IMMUNITY_TIME_IN_SECONDS,
)
"""The order in which the client writes a half's first headers; the immunity time empty when unset.

The pipeline reads headers by position when they stand so, and by name otherwise: looking each up
by name cost a fifth of the throughput.
"""
OP_PROTOCOL_ORDER: Final = (TAGS, COMMIT_OR_ROLLBACK, PGROUP, UNIQ_KEY, FROM_TRANSACTION_CHECK)
"""The order in which the client writes an op's headers; REMARK may follow."""

ERROR_HEADER_PREFIX: Final = "__checkback.errors."
RESUME_HEADER_PREFIX: Final = "__checkback.resume."
RESUME_FROM: Final = f"{RESUME_HEADER_PREFIX}from"
"""On a half that `checkback discarded resume` wrote: partition:offset of the discarded record."""
RESUME_TO: Final = f"{RESUME_HEADER_PREFIX}to"
"""On the note that stays on the discarded topic: partition:offset of the new half."""
RESUME_OPERATOR: Final = f"{RESUME_HEADER_PREFIX}operator"
RESUME_REASON: Final = f"{RESUME_HEADER_PREFIX}reason"
RESUME_TIME: Final = f"{RESUME_HEADER_PREFIX}time_ms"
RESUME_HEADERS: Final = frozenset(
    {RESUME_FROM, RESUME_TO, RESUME_OPERATOR, RESUME_REASON, RESUME_TIME}
)
"""All of them by name: a prefix to compare every header with would cost the sink a call each."""

RESERVED_PROPERTIES: Final = frozenset(
    {
        REAL_TOPIC, REAL_QID, TRAN_MSG, PGROUP, UNIQ_KEY, KEYS, TAGS, TRANSACTION_CHECK_TIMES,
        TRAN_PREPARED_QUEUE_OFFSET, TRAN_HALF_QUEUE_ID, COMMIT_OR_ROLLBACK, FROM_TRANSACTION_CHECK,
        REMARK, MANUAL_OPERATOR, ACCESS_KEY, SIGNATURE, SECURITY_TOKEN,
    }
) | RESUME_HEADERS  # fmt: skip
"""Names that a user property may not have. The immunity time is the user's to set."""

NOT_ON_FINAL: Final = frozenset(
    {
        TRAN_MSG, REAL_TOPIC, REAL_QID, CHECK_IMMUNITY_TIME_IN_SECONDS, TRANSACTION_CHECK_TIMES,
        DELAY, ACCESS_KEY, SIGNATURE, SECURITY_TOKEN,
        TRAN_PREPARED_QUEUE_OFFSET, TRAN_HALF_QUEUE_ID,
    }
) | TIMER_PROPERTIES | RESUME_HEADERS  # fmt: skip
"""Taken off a half when it becomes final (RocketMQ leaked some of them: #9469, #10970).

The two position properties are taken off as the half carries them and set anew from where it is.
"""


def first_value(headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the value of the first header of that name, None where there is none."""
    for key, value in headers:
        if key == name:
            return b"" if value is None else value
    return None


def text_value(headers: Iterable[tuple[str, bytes | None]], name: str) -> str | None:
    """Return the first header of that name as text; bytes that are no UTF-8 are replaced."""
    value = first_value(headers, name)
    return None if value is None else value.decode("utf-8", "replace")
