"""The two records of a direct delivery: the final message, and the op that says so. Pure.

The final is the one that the pipeline's sink would write: the same function takes the half apart.
"""

from __future__ import annotations

from typing import Final

from checkback.client.direct.direct_half import DirectRecord
from checkback.protocol.properties import TRANSACTION_DELIVERED, Headers
from checkback.protocol.records import Op, final_parts

BY_KEY: Final = -1
NOW: Final = 0
"""As a timestamp: that of sending."""


def direct_final(
    headers: Headers,
    key: bytes | None,
    body: bytes,
    *,
    place: tuple[int, int],
    timestamp_ms: int,
    partitions: int,
) -> DirectRecord:
    """Return the final message of a half.

    Args:
        headers: the half's.
        key: the half's.
        body: the half's.
        place: partition and offset of the half.
        timestamp_ms: when the broker appended the half.
        partitions: how many the real topic has.
    """
    parts = final_parts(headers, *place)
    wished = parts.partition_among(partitions)
    to = BY_KEY if wished is None else wished
    return DirectRecord(parts.real_topic, to, key, body, parts.headers, timestamp_ms)


def delivered_op(
    topic: str, producer_group: str, transaction_id: str, place: tuple[int, int]
) -> DirectRecord:
    """Return the op by which the pipeline learns that a half is delivered.

    Args:
        topic: the topic of direct ops.
        producer_group: of the half.
        transaction_id: of the half.
        place: partition and offset of the half.
    """
    partition, offset = place
    op = Op(partition, offset, producer_group, transaction_id, TRANSACTION_DELIVERED)
    return DirectRecord(topic, partition, op.key(), op.value(), op.headers(), NOW)
