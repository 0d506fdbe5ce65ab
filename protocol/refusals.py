"""Why a record is refused: reason codes, and the headers that a refused record carries.

Codes are stored in page state, outcomes and dashboards: a code is never reused or renumbered.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from checkback.protocol.properties import ERROR_HEADER_PREFIX, Headers


class RefusedReason(IntEnum):
    """Reason codes. 1-19 a half, 20-39 an op, 40-49 an op against a verdict, 60-79 a final."""

    NOT_A_HALF = 1
    HALF_WITHOUT_GROUP = 2
    HALF_WITHOUT_TRANSACTION_ID = 3
    HALF_WITHOUT_REAL_TOPIC = 4
    HALF_FOR_SYSTEM_TOPIC = 5
    TRANSACTIONS_REJECTED = 6

    OP_OFFSET_UNREADABLE = 20
    OP_STATE_UNKNOWN = 21
    OP_WITHOUT_GROUP = 22
    OP_WITHOUT_TRANSACTION_ID = 23
    OP_TAG_UNKNOWN = 24
    OP_GROUP_WRONG = 30
    OP_TRANSACTION_ID_WRONG = 31
    OP_WITHOUT_HALF = 32

    COMMIT_AFTER_ROLLBACK = 40
    ROLLBACK_AFTER_COMMIT = 41
    COMMIT_AFTER_DISCARD = 42
    ROLLBACK_AFTER_DISCARD = 43

    REAL_TOPIC_MISSING = 60
    REAL_TOPIC_DENIED = 61
    FINAL_TOO_LARGE = 62
    FINAL_REJECTED = 63
    HALF_LOST = 64


REASON_TEXTS: dict[RefusedReason, str] = {
    RefusedReason.NOT_A_HALF: "the record on the half topic does not say TRAN_MSG=true",
    RefusedReason.HALF_WITHOUT_GROUP: "the half message has no PGROUP",
    RefusedReason.HALF_WITHOUT_TRANSACTION_ID: "the half message has no UNIQ_KEY",
    RefusedReason.HALF_WITHOUT_REAL_TOPIC: "the half message has no REAL_TOPIC",
    RefusedReason.HALF_FOR_SYSTEM_TOPIC: "the half message names a system topic as its REAL_TOPIC",
    RefusedReason.TRANSACTIONS_REJECTED: "new transactions are rejected (reject_transactions)",
    RefusedReason.OP_OFFSET_UNREADABLE: "the op's value is not the decimal offset of a half",
    RefusedReason.OP_STATE_UNKNOWN: "the op's COMMIT_OR_ROLLBACK is none of 8, 12 and 0",
    RefusedReason.OP_WITHOUT_GROUP: "the op has no PGROUP",
    RefusedReason.OP_WITHOUT_TRANSACTION_ID: "the op has no UNIQ_KEY",
    RefusedReason.OP_TAG_UNKNOWN: "the record on the op topic has a tag that means nothing here",
    RefusedReason.OP_GROUP_WRONG: "the op's producer group is not that of the half",
    RefusedReason.OP_TRANSACTION_ID_WRONG: "the op's transaction id is not that of the half",
    RefusedReason.OP_WITHOUT_HALF: "no half is pending or remembered at the offset the op names",
    RefusedReason.COMMIT_AFTER_ROLLBACK: "commit refused: the transaction was rolled back",
    RefusedReason.ROLLBACK_AFTER_COMMIT: "rollback refused: the transaction was committed",
    RefusedReason.COMMIT_AFTER_DISCARD: "commit refused: the half message was discarded",
    RefusedReason.ROLLBACK_AFTER_DISCARD: "rollback refused: the half message was discarded",
    RefusedReason.REAL_TOPIC_MISSING: "the real topic does not exist",
    RefusedReason.REAL_TOPIC_DENIED: "the pipeline may not write to the real topic",
    RefusedReason.FINAL_TOO_LARGE: "the final message is larger than the real topic takes",
    RefusedReason.FINAL_REJECTED: "the broker rejected the final message",
    RefusedReason.HALF_LOST: "the half message is gone from its topic: retention was too short",
}


def refused_headers(
    original: Iterable[tuple[str, bytes | None]],
    reason: RefusedReason,
    topic: str,
    partition: int,
    offset: int,
    detail: str = "",
) -> Headers:
    """Return the headers of a refused record: the record's own, then reason and origin.

    Names follow Kafka Connect and KIP-1034: one suffix per fact under ``__checkback.errors.``.
    """
    text = REASON_TEXTS[reason] + (f": {detail}" if detail else "")
    facts = {
        "reason": reason.name,
        "code": str(int(reason)),
        "message": text,
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
    }
    kept = [(name, b"" if value is None else value) for name, value in original]
    return kept + [(ERROR_HEADER_PREFIX + name, fact.encode()) for name, fact in facts.items()]
