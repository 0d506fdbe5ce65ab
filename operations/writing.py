"""Appends an operator's single records, and says where and when Kafka stored them."""

from __future__ import annotations

from typing import Any

from checkback.operations.positions import Position
from checkback.protocol.properties import Headers
from checkback.streaming.announce import append_one


def append(
    connection: dict[str, Any],
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> Position:
    """Append one record and return its position.

    Raises:
        BrokerError: the record may not be stored.
    """
    safe = {**connection, "enable.idempotence": True}
    stored = append_one(safe, topic, value, key=key, headers=headers, partition=partition)
    return Position(stored.partition() or 0, stored.offset() or 0)


def append_timed(
    connection: dict[str, Any], topic: str, value: bytes, headers: Headers
) -> tuple[int, int]:
    """Append a record to partition 0; return its timestamp's type and milliseconds.

    The record may be stored twice: an idempotent producer would first wait half a second for its
    id.

    Raises:
        BrokerError: the record may not be stored.
    """
    return append_one(connection, topic, value, headers=headers).timestamp()
