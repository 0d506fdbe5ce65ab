"""Why a record is refused: reason codes, and the headers that a refused record carries.

Codes are stored in page state, outcomes and dashboards: a code is never reused or renumbered.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple, Self

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
    """Why a record is refused: the code of each reason, and its `text`.

    1-19 a half, 20-39 an op, 40-49 an op against a verdict, 60-79 what is made of a half with its
    verdict, 80-89 access control.
    """

    text: str

    def __new__(cls, code: int, text: str = "") -> Self:
        """Make a reason with its text, which is no part of its value."""
        reason = int.__new__(cls, code)
        reason._value_ = code
        reason.text = text
        return reason

    NOT_A_HALF = 1, "the record on the half topic does not say TRAN_MSG=true"
    HALF_WITHOUT_GROUP = 2, "the half message has no PGROUP"
    HALF_WITHOUT_TRANSACTION_ID = 3, "the half message has no UNIQ_KEY"
    HALF_WITHOUT_REAL_TOPIC = 4, "the half message has no REAL_TOPIC"
    HALF_FOR_SYSTEM_TOPIC = 5, "the half message names a system topic as its REAL_TOPIC"
    TRANSACTIONS_REJECTED = 6, "new transactions are rejected (reject_transactions)"
    HALF_HEADER_NAME_INVALID = 7, "the name of a header holds a NUL or is not UTF-8"
    HALF_TOPIC_TOO_LONG = 8, "REAL_TOPIC is longer than 127 bytes"
    HALF_BODY_EMPTY = 9, "the body of the half message is empty, and not null"
    HALF_BODY_TOO_LARGE = 10, "the body is larger than max_message_bytes"
    HALF_WITH_CHECK_TIMES = 11, "the half message sets TRANSACTION_CHECK_TIMES itself"
    HALF_NAME_TOO_LONG = 12, "PGROUP is longer than 255 bytes, or UNIQ_KEY than 1,024"

    OP_OFFSET_UNREADABLE = 20, "the op's value is not the decimal offset of a half"
    OP_STATE_UNKNOWN = 21, "the op's COMMIT_OR_ROLLBACK is none of 8, 12 and 0"
    OP_WITHOUT_GROUP = 22, "the op has no PGROUP"
    OP_WITHOUT_TRANSACTION_ID = 23, "the op has no UNIQ_KEY"
    OP_TAG_UNKNOWN = 24, "the record on the op topic has a tag that means nothing here"
    OP_HEADER_NAME_INVALID = 25, "the name of a header holds a NUL or is not UTF-8"
    OP_GROUP_WRONG = 30, "the op's producer group is not that of the half"
    OP_TRANSACTION_ID_WRONG = 31, "the op's transaction id is not that of the half"
    OP_WITHOUT_HALF = 32, "no half is pending or remembered at the offset the op names"

    COMMIT_AFTER_ROLLBACK = 40, "commit refused: the transaction was rolled back"
    ROLLBACK_AFTER_COMMIT = 41, "rollback refused: the transaction was committed"
    COMMIT_AFTER_DISCARD = 42, "commit refused: the half message was discarded"
    ROLLBACK_AFTER_DISCARD = 43, "rollback refused: the half message was discarded"
    DELIVERED_AFTER_COMMIT = (
        44,
        "delivered, and committed before: the final message may stand there twice",
    )
    DELIVERED_AFTER_ROLLBACK = 45, "delivered, though rolled back before"
    DELIVERED_AFTER_DISCARD = 46, "delivered, though discarded before"

    REAL_TOPIC_MISSING = 60, "the real topic does not exist"
    REAL_TOPIC_DENIED = 61, "the pipeline may not write to the real topic"
    FINAL_TOO_LARGE = 62, "the final message is larger than the real topic takes"
    FINAL_REJECTED = 63, "the broker rejected the final message"
    HALF_LOST = 64, "the half message is gone from its topic: retention was too short"
    HALF_UNREADABLE = 65, "the half message, or its headers, can't be read"
    RECORD_NOT_MADE = 66, "the pipeline failed to make the final message"
    DISCARD_REJECTED = (
        67,
        "the half message was to be discarded, and that record was not taken, or could not be made",
    )
    HALF_REPLACED = 68, "the half topic holds another half than the one that was decided"
    REAL_TOPIC_UNAVAILABLE = (
        69,
        (
            "the real topic has a partition without a leader, or with fewer replicas in sync than "
            "min.insync.replicas"
        ),
    )

    ACCESS_KEY_MISSING = (
        80,
        "the record is not signed, or its headers do not stand in the order of a signed one",
    )
    ACCESS_KEY_UNKNOWN = 81, "no account has the access key that Signature names"
    SIGNATURE_WRONG = 82, "the signature is not that of the record with a secret of its account"
    BORN_TIME_WRONG = (
        83,
        (
            "the half message was not signed when it was written: the time in Signature is too far "
            "from the broker's"
        ),
    )
    TOPIC_NOT_PERMITTED = 84, "the account may not publish to the real topic"
    GROUP_NOT_PERMITTED = (
        85,
        "the account may not publish for the producer group, or not answer its checks",
    )
    ADMIN_NEEDED = 86, "only an admin account may resolve or resume a transaction by hand"
    SIGNATURE_UNREADABLE = (
        87,
        (
            "Signature is not a time, an access key and a signature, with one space between two of "
            "them"
        ),
    )
    BORN_TIME_UNREADABLE = (
        88,
        "the time in Signature is not a whole number of at most 13 digits without a leading zero",
    )


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
    return f"{reason.text}: {detail}" if detail else reason.text


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
