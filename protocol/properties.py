"""Names and values of properties, which are record headers.

They are RocketMQ's (MessageConst, MessageSysFlag), so that its documentation applies. A property is
one Kafka header: the name as the header key, the value in UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

Headers = list[tuple[str, bytes]]
"""Headers as both Kafka clients read and write them; a null value is read as empty."""

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
TRANSACTION_CHECK_INTERVAL_MS: Final = "TRANSACTION_CHECK_INTERVAL_MS"
"""On a check request: the pipeline's check_interval_ms. With it a client knows whether the next
request is already on its way, and skips the older one. RocketMQ has no such property."""
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRAN_HALF_QUEUE_ID: Final = "TRAN_HALF_QUEUE_ID"

DIRECT_ID: Final = "DIRECT_ID"
"""On halves of clients that delivered messages themselves (until 641b9cc); it means nothing now."""

COMMIT_OR_ROLLBACK: Final = "COMMIT_OR_ROLLBACK"
FROM_TRANSACTION_CHECK: Final = "FROM_TRANSACTION_CHECK"
REMARK: Final = "REMARK"
MANUAL_OPERATOR: Final = "MANUAL_OPERATOR"
"""On an op from `checkback tx resolve`: the operator. REMARK holds the reason."""

SIGNATURE: Final = "Signature"
"""The last header of a signed record: when it was signed, by which account, and the signature."""
BORN_HOST: Final = "__BORNHOST"
"""The address that a producer states of itself; on a signed record, in front of SIGNATURE."""
ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - a header's name
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
"""RocketMQ's, like the two before it. They mean nothing here, and reach no consumer."""

TRANSACTION_NOT_TYPE: Final = 0
TRANSACTION_COMMIT_TYPE: Final = 8
TRANSACTION_ROLLBACK_TYPE: Final = 12
TRANSACTION_DELIVERED: Final = 9
"""The final message is written. RocketMQ has no such value."""
OP_STATES: Final = (
    TRANSACTION_NOT_TYPE, TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE, TRANSACTION_DELIVERED
)  # fmt: skip
"""What an op may say; the last one on no topic that is read today (docs/protocol.md)."""

OP_TAG_REMOVE: Final = "d"
"""TAGS of an op, RocketMQ's REMOVE_TAG."""
OP_TAG_TICK: Final = "t"
"""TAGS of a tick: a record that is no op and makes Spark check timeouts after a restart."""
OP_TAG_UNDELIVERED: Final = "u"
"""TAGS of the sink's feedback: a check request found no check topic, so it does not count."""

HALF_PROTOCOL_ORDER: Final = (
    TRAN_MSG,
    PGROUP,
    UNIQ_KEY,
    REAL_TOPIC,
    CHECK_IMMUNITY_TIME_IN_SECONDS,
)
"""The order of a half's first headers as the client writes them; an unset immunity time is empty.

If a half's headers have this order, the pipeline reads them by position, else by name. Reading
every header by name cost a fifth of the throughput.
"""
OP_PROTOCOL_ORDER: Final = (TAGS, COMMIT_OR_ROLLBACK, PGROUP, UNIQ_KEY, FROM_TRANSACTION_CHECK)
"""The order of an op's headers as the client writes them; REMARK may follow."""

ERROR_HEADER_PREFIX: Final = "__checkback.errors."
DISCARDED_REASON: Final = "__checkback.discarded.reason"
"""On a record of the discarded topic: why."""
RESUME_HEADER_PREFIX: Final = "__checkback.resume."
RESEND_HEADER_PREFIX: Final = "__checkback.resend."


class ActionNames(NamedTuple):
    """The names of the headers that tell of an operator's action on a record."""

    source: str
    target: str
    operator: str
    reason: str
    time: str


OFFSET_MAX: Final = 2**63 - 1
"""Kafka's largest offset."""
_DIGITS_MAX: Final = len(str(OFFSET_MAX))


def _action_names(prefix: str) -> ActionNames:
    return ActionNames(*(prefix + name for name in ("from", "to", "operator", "reason", "time_ms")))


RESUME: Final = _action_names(RESUME_HEADER_PREFIX)
"""`checkback discarded resume` writes these on the new half and on a note beside the old one."""
RESEND: Final = _action_names(RESEND_HEADER_PREFIX)
"""`checkback refused resend` writes these on the final, and on a note on the refused topic, where
the target is topic:partition:offset."""
RESUME_HEADERS: Final = frozenset(RESUME)
"""A set of names, because comparing every header with a prefix would cost the sink a call each."""
RESEND_HEADERS: Final = frozenset(RESEND)
"""A half can't bring these along to its final: only the command writes them."""

RESERVED_PROPERTIES: Final = frozenset(
    {
        REAL_TOPIC, REAL_QID, TRAN_MSG, PGROUP, UNIQ_KEY, KEYS, TAGS, TRANSACTION_CHECK_TIMES,
        TRANSACTION_CHECK_INTERVAL_MS, TRAN_PREPARED_QUEUE_OFFSET, TRAN_HALF_QUEUE_ID,
        COMMIT_OR_ROLLBACK, FROM_TRANSACTION_CHECK, REMARK, MANUAL_OPERATOR, DIRECT_ID, ACCESS_KEY,
        SIGNATURE, SECURITY_TOKEN, BORN_HOST, BORN_TIMESTAMP, DISCARDED_REASON,
    }
) | RESUME_HEADERS | RESEND_HEADERS  # fmt: skip
"""Names that a user property may not have. Users may set the immunity time."""

NOT_ON_FINAL: Final = frozenset(
    {
        TRAN_MSG, REAL_TOPIC, REAL_QID, CHECK_IMMUNITY_TIME_IN_SECONDS, TRANSACTION_CHECK_TIMES,
        TRANSACTION_CHECK_INTERVAL_MS, DELAY, ACCESS_KEY, SIGNATURE, SECURITY_TOKEN, BORN_HOST,
        BORN_TIMESTAMP, TRAN_PREPARED_QUEUE_OFFSET, TRAN_HALF_QUEUE_ID, DIRECT_ID,
        COMMIT_OR_ROLLBACK, FROM_TRANSACTION_CHECK, REMARK, MANUAL_OPERATOR, DISCARDED_REASON,
    }
) | TIMER_PROPERTIES | RESUME_HEADERS | RESEND_HEADERS  # fmt: skip
"""Properties that a final message does not take from its half (RocketMQ leaked some of them: #9469,
#10970).

The two position properties are among them: the final gets new ones from the half's real position.
So are the names of ops and of discarded records: a half that has them was written by a stranger.
"""


def header_value(value: str | bytes) -> bytes:
    """Return a property's value as it stands in its header."""
    return value if isinstance(value, bytes) else value.encode()


def first_value(headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the value of the first header of that name, None where there is none."""
    for key, value in headers:
        if key == name:
            return b"" if value is None else value
    return None


def text_value(headers: Iterable[tuple[str, bytes | None]], name: str) -> str | None:
    """Return the first header of that name as text; bytes that are not UTF-8 are replaced."""
    value = first_value(headers, name)
    return None if value is None else value.decode("utf-8", "replace")


def whole_number(text: str) -> int | None:
    """Return a whole number; None for a text that is none, or has more digits than 64 bits hold."""
    is_whole = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_whole else None


def named_offset(op_value: bytes | None) -> int | None:
    """Return the half offset that an op's value names, as RecordDecoder.java reads it; or None.

    Any number of zeros may stand before the digits.
    """
    if not op_value or not op_value.isdigit():
        return None
    digits = op_value.lstrip(b"0") or b"0"
    found = int(digits) if len(digits) <= _DIGITS_MAX else OFFSET_MAX + 1
    return found if found <= OFFSET_MAX else None
