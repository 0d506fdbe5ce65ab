"""What of a record is signed, byte for byte, and the headers that carry a signature.

Every byte has one meaning: sizes stand first, the separator is a byte that no UTF-8 text holds, and
Signature is the last name. So no other record has the content of a signed one. Clients sign no
property of bytes that has the separator in it. The pipeline makes the same content in Java
(streaming/java/RecordVerifier.java).

Time, account and signature are one header: each header costs the pipeline a quarter of a
microsecond (docs/decisions/access.md#verification).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from checkback.protocol import properties as names
from checkback.protocol.properties import Headers

SEPARATOR: Final = b"\xff"
BORN_TIME_TOLERANCE_MS: Final = 300_000
"""How far the time that a half states may be from the broker's. A half that somebody copies later
is refused."""
SIGNATURE_BYTES_MAX: Final = 44
"""HMAC-SHA-256 in Base64."""
TIMESTAMP_BYTES_MAX: Final = 13
_NOT_IN_ACCESS_KEYS: Final = frozenset({"Cc", "Cs", "Zl", "Zp", "Zs"})
"""Unicode's categories of control characters, surrogates, line ends and spaces. A space ends an
access key in Signature. A line end stands between it and what is looked up with it, and patterns of
addresses match within a line."""


def is_access_key(text: str) -> bool:
    """Tell whether an account can have this access key: it has no space, line end or the like."""
    return all(unicodedata.category(one) not in _NOT_IN_ACCESS_KEYS for one in text)


def signed_tail(access_key: str, born_host: str, born_timestamp_ms: int) -> Headers:
    """Return the headers that are put behind a record's own before it is signed.

    The last, Signature, says when and by whom. The signature itself follows in the same header.
    """
    stated = [(names.BORN_HOST, born_host.encode())] if born_host else []
    return [*stated, (names.SIGNATURE, b"%d %s " % (born_timestamp_ms, access_key.encode()))]


def is_in_time(signed_at_ms: float, stored_at_ms: float) -> bool:
    """Tell whether the time of a half's signature is near enough to the broker's time."""
    return abs(stored_at_ms - signed_at_ms) <= BORN_TIME_TOLERANCE_MS


def signed_content(
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    algorithm: str,
) -> bytes:
    """Return the bytes that are signed.

    Args:
        topic: where the record is written to.
        partition: of an op; None for a half: its producer need not know it.
        key: the record's key.
        value: the record's value.
        headers: all headers in their order; the last is Signature, which lacks the signature.
        algorithm: the name of what signs: the account says it, never the record.
    """
    header_names = [name.encode() for name, _ in headers]
    parts = [*header_names, *(content or b"" for _, content in headers), b""]
    head = SEPARATOR.join(parts)
    place = b"-" if partition is None else b"%d" % partition
    key_size = b"-" if key is None else b"%d" % len(key)
    return b"%s %s %s %d %s\n%s%s%s" % (
        algorithm.encode(), topic.encode(), place, len(head), key_size, head, key or b"",
        value or b"",
    )  # fmt: skip


def with_signature(headers: Headers, signature: str) -> Headers:
    """Return the headers of a record with the signature, which ends the last of them."""
    *others, (name, stated) = headers
    return [*others, (name, stated + signature.encode())]


def signed_tail_largest(access_key: str, born_host: str) -> Headers:
    """Return headers as large as those that signing adds, to compute a record's size with."""
    tail = signed_tail(access_key, born_host, 10**TIMESTAMP_BYTES_MAX - 1)
    return with_signature(tail, "=" * SIGNATURE_BYTES_MAX)
