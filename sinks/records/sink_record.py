"""A record on its way to Kafka."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from checkback.protocol.properties import Headers
from checkback.protocol.refusals import RecordOrigin

SentHeaders = list[tuple[str, str | bytes]]
"""How confluent-kafka types what it sends; a list of bytes is one, but lists are invariant."""

BY_KEY: Final = -1
"""As a partition: let the key decide."""
NOW: Final = 0
"""As a timestamp: let the producer set the time of sending."""


def sent_headers(headers: Headers) -> SentHeaders:
    """Return headers as confluent-kafka types them."""
    return cast("SentHeaders", headers)


class SinkRecord(NamedTuple):
    """A record to write: topic, partition (BY_KEY), key, value, headers, timestamp.

    A tuple, because the sink makes one for every message. The last field names the record that it
    was made of, None where there is no such record.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    origin: RecordOrigin | None = None
