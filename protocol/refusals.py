"""Why a record is refused: reason codes, and the headers that a refused record carries.

Codes are stored in page state, outcomes and dashboards: a code is never reused or renumbered.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from checkback.protocol.properties import (
    ERROR_HEADER_PREFIX,
    KEYS,
    PGROUP,
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    Headers,
)
from checkback.protocol.record_size import headers_bytes_max, record_bytes_max

DETAIL_CHARACTERS_MAX: Final = 1_000
REFUSED_HEADERS_MAX: Final = 10_000
"""Of a refused record; with more, not every client reads them."""
KEPT_HEADERS: Final = frozenset({PGROUP, UNIQ_KEY, REAL_TOPIC, KEYS, TAGS})
"""Of headers that do not fit, these stay: they name the group and the transaction."""
KEPT_HEADER_BYTES_MAX: Final = 1_024
GROUP_BYTES_MAX: Final = 255
TOPIC_LENGTH_MAX: Final = 127
"""RocketMQ's (Validators.TOPIC_MAX_LENGTH). A name with characters that Kafka does not take is
refused with the verdict, since there is no such topic."""
IMMUNITY_DIGITS_MAX: Final = 12
"""Of an immunity time in seconds; one with more digits counts as none."""
ID_BYTES_MAX: Final = 1_024
"""No half that is taken has a longer transaction id. Reports, log lines and the ledger repeat it:
twenty groups of 4 MB made a line of 80 MB. They keep no more of what a refused record says."""


class RefusedReason(IntEnum):
    """Reason codes.

    1-19 a half, 20-39 an op, 40-49 an op against a verdict, 60-79 what is made of a half with its
    verdict, 80-89 access control.
    """

    NOT_A_HALF = 1
    HALF_WITHOUT_GROUP = 2
    HALF_WITHOUT_TRANSACTION_ID = 3
    HALF_WITHOUT_REAL_TOPIC = 4
    HALF_FOR_SYSTEM_TOPIC = 5
    TRANSACTIONS_REJECTED = 6
    HALF_HEADER_NAME_INVALID = 7
    HALF_TOPIC_TOO_LONG = 8
    HALF_BODY_EMPTY = 9
    HALF_BODY_TOO_LARGE = 10
    HALF_WITH_CHECK_TIMES = 11
    HALF_NAME_TOO_LONG = 12

    OP_OFFSET_UNREADABLE = 20
    OP_STATE_UNKNOWN = 21
    OP_WITHOUT_GROUP = 22
    OP_WITHOUT_TRANSACTION_ID = 23
    OP_TAG_UNKNOWN = 24
    OP_HEADER_NAME_INVALID = 25
    OP_GROUP_WRONG = 30
    OP_TRANSACTION_ID_WRONG = 31
    OP_WITHOUT_HALF = 32

    COMMIT_AFTER_ROLLBACK = 40
    ROLLBACK_AFTER_COMMIT = 41
    COMMIT_AFTER_DISCARD = 42
    ROLLBACK_AFTER_DISCARD = 43
    DELIVERED_AFTER_COMMIT = 44
    DELIVERED_AFTER_ROLLBACK = 45
    DELIVERED_AFTER_DISCARD = 46

    REAL_TOPIC_MISSING = 60
    REAL_TOPIC_DENIED = 61
    FINAL_TOO_LARGE = 62
    FINAL_REJECTED = 63
    HALF_LOST = 64
    HALF_UNREADABLE = 65
    RECORD_NOT_MADE = 66
    DISCARD_REJECTED = 67
    HALF_REPLACED = 68
    REAL_TOPIC_UNAVAILABLE = 69

    ACCESS_KEY_MISSING = 80
    ACCESS_KEY_UNKNOWN = 81
    SIGNATURE_WRONG = 82
    BORN_TIME_WRONG = 83
    TOPIC_NOT_PERMITTED = 84
    GROUP_NOT_PERMITTED = 85
    ADMIN_NEEDED = 86
    SIGNATURE_UNREADABLE = 87
    BORN_TIME_UNREADABLE = 88


REASON_TEXTS: dict[RefusedReason, str] = {
    RefusedReason.NOT_A_HALF: "the record on the half topic does not say TRAN_MSG=true",
    RefusedReason.HALF_WITHOUT_GROUP: "the half message has no PGROUP",
    RefusedReason.HALF_WITHOUT_TRANSACTION_ID: "the half message has no UNIQ_KEY",
    RefusedReason.HALF_WITHOUT_REAL_TOPIC: "the half message has no REAL_TOPIC",
    RefusedReason.HALF_FOR_SYSTEM_TOPIC: "the half message names a system topic as its REAL_TOPIC",
    RefusedReason.TRANSACTIONS_REJECTED: "new transactions are rejected (reject_transactions)",
    RefusedReason.HALF_HEADER_NAME_INVALID: "the name of a header holds a NUL or is not UTF-8",
    RefusedReason.HALF_TOPIC_TOO_LONG: "REAL_TOPIC is longer than 127 bytes",
    RefusedReason.HALF_BODY_EMPTY: "the body of the half message is empty, and not null",
    RefusedReason.HALF_BODY_TOO_LARGE: "the body is larger than max_message_bytes",
    RefusedReason.HALF_WITH_CHECK_TIMES: "the half message sets TRANSACTION_CHECK_TIMES itself",
    RefusedReason.HALF_NAME_TOO_LONG: "PGROUP is longer than 255 bytes, or UNIQ_KEY than 1,024",
    RefusedReason.OP_OFFSET_UNREADABLE: "the op's value is not the decimal offset of a half",
    RefusedReason.OP_STATE_UNKNOWN: "the op's COMMIT_OR_ROLLBACK is none of 8, 12 and 0",
    RefusedReason.OP_WITHOUT_GROUP: "the op has no PGROUP",
    RefusedReason.OP_WITHOUT_TRANSACTION_ID: "the op has no UNIQ_KEY",
    RefusedReason.OP_TAG_UNKNOWN: "the record on the op topic has a tag that means nothing here",
    RefusedReason.OP_HEADER_NAME_INVALID: "the name of a header holds a NUL or is not UTF-8",
    RefusedReason.OP_GROUP_WRONG: "the op's producer group is not that of the half",
    RefusedReason.OP_TRANSACTION_ID_WRONG: "the op's transaction id is not that of the half",
    RefusedReason.OP_WITHOUT_HALF: "no half is pending or remembered at the offset the op names",
    RefusedReason.COMMIT_AFTER_ROLLBACK: "commit refused: the transaction was rolled back",
    RefusedReason.ROLLBACK_AFTER_COMMIT: "rollback refused: the transaction was committed",
    RefusedReason.COMMIT_AFTER_DISCARD: "commit refused: the half message was discarded",
    RefusedReason.ROLLBACK_AFTER_DISCARD: "rollback refused: the half message was discarded",
    RefusedReason.DELIVERED_AFTER_COMMIT: "delivered, and committed before: the final"
    " message may stand there twice",
    RefusedReason.DELIVERED_AFTER_ROLLBACK: "delivered, though rolled back before",
    RefusedReason.DELIVERED_AFTER_DISCARD: "delivered, though discarded before",
    RefusedReason.REAL_TOPIC_MISSING: "the real topic does not exist",
    RefusedReason.REAL_TOPIC_DENIED: "the pipeline may not write to the real topic",
    RefusedReason.FINAL_TOO_LARGE: "the final message is larger than the real topic takes",
    RefusedReason.FINAL_REJECTED: "the broker rejected the final message",
    RefusedReason.HALF_LOST: "the half message is gone from its topic: retention was too short",
    RefusedReason.HALF_UNREADABLE: "the half message, or its headers, can't be read",
    RefusedReason.RECORD_NOT_MADE: "the pipeline failed to make the final message",
    RefusedReason.DISCARD_REJECTED: "the half message was to be discarded, and that record was not"
    " taken, or could not be made",
    RefusedReason.HALF_REPLACED: "the half topic holds another half than the one that was decided",
    RefusedReason.REAL_TOPIC_UNAVAILABLE: "the real topic has a partition without a leader, or with"
    " fewer replicas in sync than min.insync.replicas",
    RefusedReason.ACCESS_KEY_MISSING: "the record is not signed, or its headers do not stand in"
    " the order of a signed one",
    RefusedReason.ACCESS_KEY_UNKNOWN: "no account has the access key that Signature names",
    RefusedReason.SIGNATURE_WRONG: "the signature is not that of the record with a secret of its"
    " account",
    RefusedReason.BORN_TIME_WRONG: "the half message was not signed when it was written:"
    " the time in Signature is too far from the broker's",
    RefusedReason.TOPIC_NOT_PERMITTED: "the account may not publish to the real topic",
    RefusedReason.GROUP_NOT_PERMITTED: "the account may not publish for the producer group,"
    " or not answer its checks",
    RefusedReason.ADMIN_NEEDED: "only an admin account may resolve or resume a transaction by hand",
    RefusedReason.SIGNATURE_UNREADABLE: "Signature is not a time, an access key and a signature,"
    " with one space between two of them",
    RefusedReason.BORN_TIME_UNREADABLE: "the time in Signature is not a whole number of at most 13"
    " digits without a leading zero",
}


COMMITTED_REASONS: Final = frozenset(
    {
        RefusedReason.REAL_TOPIC_MISSING,
        RefusedReason.REAL_TOPIC_DENIED,
        RefusedReason.FINAL_TOO_LARGE,
        RefusedReason.FINAL_REJECTED,
        RefusedReason.RECORD_NOT_MADE,
        RefusedReason.REAL_TOPIC_UNAVAILABLE,
    }
)
"""Only the final of a committed half is refused for these, and may be sent when its topic, or
the pipeline, is mended."""

VERDICT_REASONS: Final = frozenset(reason for reason in RefusedReason if 60 <= reason < 80)
"""A half has its verdict, and what was to be made of it does not reach its topic."""


ACCESS_REASONS: Final = frozenset(reason for reason in RefusedReason if 80 <= reason < 100)
"""The rules of access control do not believe the record; others may."""


class RecordOrigin(NamedTuple):
    """Topic, partition and offset of the record that something is made from."""

    topic: str
    partition: int
    offset: int


class RecordParts(NamedTuple):
    """What a record consists of; headers are None where they can't be read."""

    key: bytes | None
    value: bytes | None
    headers: Iterable[tuple[str, bytes | None]] | None


class RefusedParts(NamedTuple):
    """What a refused record consists of."""

    key: bytes | None
    value: bytes | None
    headers: Headers


def refused_parts(
    record: RecordParts,
    reason: RefusedReason,
    origin: RecordOrigin,
    detail: str = "",
    bytes_max: int | None = None,
) -> RefusedParts:
    """Return a refused record: the record untouched, with reason and origin; cut if it can't fit.

    If it is too large, whole parts are left out, the first of these that makes it fit: the headers,
    except the short ones of KEPT_HEADERS; the value; both; the key as well. The headers stay
    longest, because they tell what it was.
    """
    detail = detail[:DETAIL_CHARACTERS_MAX]
    given = [(name, value or b"") for name, value in record.headers or ()]
    headers = refused_headers(given, reason, *origin, detail)
    is_whole = record.headers is not None and len(headers) <= REFUSED_HEADERS_MAX
    if is_whole and _fits(record.key, record.value, headers, bytes_max):
        return RefusedParts(record.key, record.value, headers)
    few = [one for one in given if one[0] in KEPT_HEADERS and len(one[1]) <= KEPT_HEADER_BYTES_MAX]
    stages: tuple[tuple[list[str], bytes | None, bytes | None, Headers], ...] = (
        (["headers"], record.key, record.value, few[: len(KEPT_HEADERS)]),
        (["value"], record.key, None, given),
        (["value", "headers"], record.key, None, few[: len(KEPT_HEADERS)]),
        (["value", "headers", "key"], None, None, []),
    )
    made = RefusedParts(None, None, [])
    for cut, key, value, kept in stages:
        if not is_whole and "headers" not in cut:
            continue
        headers = refused_headers(kept, reason, *origin, detail)
        made = RefusedParts(key, value, headers + _cut_facts(record, given, cut))
        if _fits(*made, bytes_max):
            break
    return made


def _fits(key: bytes | None, value: bytes | None, headers: Headers, bytes_max: int | None) -> bool:
    return bytes_max is None or record_bytes_max(key, value, headers) <= bytes_max


def _cut_facts(record: RecordParts, headers: Headers, cut: list[str]) -> Headers:
    facts = {
        "cut": ",".join(cut),
        "original_key_bytes": str(len(record.key or b"")),
        "original_value_bytes": str(len(record.value or b"")),
    }
    if record.headers is not None:
        facts["original_headers"] = str(len(headers))
        facts["original_headers_bytes"] = str(headers_bytes_max(headers))
    return [(ERROR_HEADER_PREFIX + name, fact.encode()) for name, fact in facts.items()]


def refusal_text(reason: RefusedReason, detail: str) -> str:
    """Return why something was refused; the detail may be empty."""
    return f"{REASON_TEXTS[reason]}: {detail}" if detail else REASON_TEXTS[reason]


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
    facts = {
        "reason": reason.name,
        "code": str(int(reason)),
        "message": refusal_text(reason, detail),
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
    }
    kept = [(name, b"" if value is None else value) for name, value in original]
    return kept + [(ERROR_HEADER_PREFIX + name, fact.encode()) for name, fact in facts.items()]


class RefusalFacts(NamedTuple):
    """A refused record's headers: its own, and the pipeline's.

    Args:
        original: the record's own, as far as they were kept.
        facts: what the pipeline says of it, by name without the prefix; empty where the record was
            not refused by a pipeline.
    """

    original: Headers
    facts: dict[str, str]


def refusal_facts(headers: Headers) -> RefusalFacts:
    """Tell the headers that refused_parts added from those that the record had.

    The pipeline's stand last, and begin with the reason. A record may have had headers of the same
    names; those are not believed.
    """
    first = ERROR_HEADER_PREFIX + "reason"
    places = [place for place, (name, _) in enumerate(headers) if name == first]
    if not places:
        return RefusalFacts(headers, {})
    noted = headers[places[-1] :]
    facts = {
        name.removeprefix(ERROR_HEADER_PREFIX): value.decode("utf-8", "replace")
        for name, value in noted
    }
    return RefusalFacts(headers[: places[-1]], facts)
