"""What is pending, with the half behind each row of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import Message

from checkback.checkpoints.pending import PendingGroup, PendingHalf
from checkback.operations.positions import Position
from checkback.protocol import properties as names
from checkback.protocol.properties import Headers
from checkback.sinks.lookup import RecordReader

GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class PendingTransaction:
    """A transaction without a verdict.

    Args:
        half: what the state knows.
        transaction_id: UNIQ_KEY, "" where the half is gone from its topic.
        group: the producer group, "" as above.
        real_topic: where it goes once committed, "" as above.
    """

    half: PendingHalf
    transaction_id: str
    group: str
    real_topic: str

    def as_data(self, now_ms: int) -> dict[str, Any]:
        """Return it as plain data.

        Args:
            now_ms: the time that ages are told from.
        """
        return {
            "transaction_id": self.transaction_id,
            "group": self.group,
            "real_topic": self.real_topic,
            "half_partition": self.half.partition,
            "half_offset": self.half.offset,
            "half_time_ms": self.half.store_time_ms,
            "age_ms": now_ms - self.half.store_time_ms,
            "check_times": self.half.check_times,
            "next_check_ms": self.half.deadline_ms,
        }


def look_up(reader: RecordReader, halves: Iterable[PendingHalf]) -> list[PendingTransaction]:
    """Return the transactions of pending halves, oldest first.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    by_place = {Position(half.partition, half.offset): half for half in halves}
    found = read_positions(reader, by_place)
    transactions = []
    for at, half in by_place.items():
        headers = _headers(found[at])
        told = [names.text_value(headers, one) or "" for one in _SHOWN]
        transactions.append(PendingTransaction(half, *told))
    return sorted(transactions, key=lambda one: (one.half.store_time_ms, one.half.partition))


def pending_of_group(
    find: Callable[[int], Sequence[PendingTransaction]], group: str, most: int
) -> list[PendingTransaction]:
    """Return the oldest pending transactions of one group.

    Args:
        find: returns the so many oldest whose group has the hash of this one.
        group: the producer group.
        most: no more than so many.
    """
    wanted = most
    while True:
        found = find(wanted)
        own = [one for one in found if one.group == group]
        if len(own) >= most or len(found) < wanted:
            return own[:most]
        # Another group with the same hash stood before some of this one's.
        wanted *= GROWTH


def groups_pending(
    reader: RecordReader, groups: Sequence[PendingGroup]
) -> list[tuple[str, PendingGroup]]:
    """Return what is pending by the groups' names, "" where the half is gone from its topic.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    places = [Position(group.partition, group.offset) for group in groups]
    found = read_positions(reader, places)
    named = [
        (names.text_value(_headers(found[at]), names.PGROUP) or "", group)
        for at, group in zip(places, groups, strict=True)
    ]
    return sorted(named, key=lambda one: one[0])


def read_positions(
    reader: RecordReader, positions: Iterable[Position]
) -> dict[Position, Message | None]:
    """Return the record at each position, None where it is gone.

    Raises:
        BrokerError: the brokers do not answer, or refuse.
    """
    by_partition: dict[int, list[int]] = {}
    for at in sorted(set(positions)):
        by_partition.setdefault(at.partition, []).append(at.offset)
    return {
        Position(partition, offset): message
        for partition, offsets in by_partition.items()
        for offset, message in reader.read(partition, np.array(offsets, np.int64))
    }


_SHOWN: Final = (names.UNIQ_KEY, names.PGROUP, names.REAL_TOPIC)


def _headers(message: Message | None) -> Headers:
    found = [] if message is None else message.headers() or []
    return [(name, value or b"") for name, value in found]
