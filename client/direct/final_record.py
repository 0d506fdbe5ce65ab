"""The two records of a direct delivery: the final message, and the op that says so. Pure.

The final message is the one that the pipeline's sink would write: the same function makes both.
"""

from __future__ import annotations

from typing import Final

from checkback.client.direct.direct_half import DirectRecord
from checkback.protocol.properties import (
    OP_PROTOCOL_ORDER,
    TRANSACTION_DELIVERED,
    UNIQ_KEY,
    Headers,
)
from checkback.protocol.records import Op, final_parts

BY_KEY: Final = -1
ID_AT: Final = OP_PROTOCOL_ORDER.index(UNIQ_KEY)
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


class DeliveredOps:
    """Makes the ops by which the pipeline learns that a half is delivered.

    Args:
        topic: the topic of direct ops.
        producer_group: of the halves.
    """

    def __init__(self, topic: str, producer_group: str) -> None:
        self._topic = topic
        # Made for every message, so the parts that all ops share are made once.
        self._alike = Op(0, 0, producer_group, "", TRANSACTION_DELIVERED).headers()

    def op(self, transaction_id: str, place: tuple[int, int]) -> DirectRecord:
        """Return the op of a half.

        Args:
            transaction_id: of the half.
            place: partition and offset of the half.
        """
        partition, offset = place
        key = transaction_id.encode()
        headers = self._alike.copy()
        headers[ID_AT] = (UNIQ_KEY, key)
        return DirectRecord(self._topic, partition, key, b"%d" % offset, headers, NOW)
