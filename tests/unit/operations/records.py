"""Records like those that a scan finds."""

from __future__ import annotations

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.protocol.properties import Headers
from checkback.protocol.records import discarded_headers, half_headers
from checkback.protocol.topics import TopicNames

NAMES = TopicNames("t-")
FIRST = Position(0, 0)


def record(
    topic: str,
    headers: Headers,
    *,
    at: Position = FIRST,
    time_ms: int = 1_000,
    value: bytes | None = b"body",
    key: bytes = b"key",
) -> FoundRecord:
    return FoundRecord(topic, at, time_ms, key, value, headers)


def half(
    transaction_id: str = "u", *, group: str = "g", topic: str = "orders", at: Position
) -> FoundRecord:
    headers = half_headers(
        producer_group=group, transaction_id=transaction_id, real_topic=topic, properties={"a": "b"}
    )
    return record(NAMES.half, headers, at=at)


def discarded(
    of: FoundRecord, *, at: Position, why: str = "check limit", check_times: int = 3
) -> FoundRecord:
    headers = discarded_headers(of.headers, of.at.partition, of.at.offset, check_times, why)
    return record(NAMES.discarded, headers, at=at, time_ms=of.time_ms)
