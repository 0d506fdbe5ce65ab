"""How large a record gets on a topic: upper bounds of what Kafka's message format 2 adds.

forward.c is given the same numbers by sinks/native/clients.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

RECORD_BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 21
HEADER_OVERHEAD_BYTES: Final = 10
HEADERS_MAX: Final = 100_000
"""A record with more headers is written by librdkafka, and read without any."""


def record_bytes_max(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> int:
    """Return how large a batch of this one record can get, uncompressed."""
    size = RECORD_BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    return size + headers_bytes_max(headers)


def headers_bytes_max(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return how much of a record its headers can take; their values may be null."""
    size = 0
    # Measured for every half that a client sends: a name of ASCII is as long in bytes.
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + (len(name) if name.isascii() else len(name.encode()))
        size += len(content) if content else 0
    return size
