"""Pending transactions: rows of the state, joined with their halves."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

from checkback.checkpoints.pending.pending_halves import PendingGroup, PendingHalf, PendingTable
from checkback.checkpoints.spark_files.state_rows import read_state
from checkback.operations.checkpoint.open import open_state
from checkback.operations.topics.position import Position
from checkback.protocol import properties as names
from checkback.protocol.configuration import Settings
from checkback.protocol.properties import Headers
from checkback.sinks.kafka.read.record_reader import RecordReader, RecordSource
from checkback.sinks.records.source_record import PlacedRecord

RECORDS_AT_ONCE: Final = 10_000
"""Halves with their records in memory at once; only names are kept."""
SILENCE_POLLS_MAX: Final = 5
"""Somebody waits for the answer; a job may wait longer for its brokers."""


@dataclass(frozen=True, slots=True)
class PendingTransaction:
    """A transaction without a verdict.

    Args:
        transaction_id: UNIQ_KEY, "" if the half is gone from its topic.
    """

    half: PendingHalf
    transaction_id: str
    group: str
    real_topic: str

    def as_data(self, now_ms: int) -> dict[str, Any]:
        """Return the transaction as plain data."""
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


def oldest_transactions(
    settings: Settings, most: int, *, stored_until_ms: int | None = None, group: str | None = None
) -> list[PendingTransaction]:
    """Return the oldest pending transactions, by the checkpoint and the half topic.

    Raises:
        NotFoundError: no pipeline has run over the checkpoint yet.
        CheckpointError: the state can't be read.
        BrokerError: the brokers do not answer, or refuse.
    """
    with open_state(settings) as store:
        held = read_state(store)
    table = PendingTable.of(() if held is None else held.pages)
    with closing(half_reader(settings)) as reader:
        return oldest_in(table, reader, most, stored_until_ms=stored_until_ms, group=group)


def oldest_in(
    table: PendingTable,
    reader: RecordSource,
    most: int,
    *,
    stored_until_ms: int | None = None,
    group: str | None = None,
) -> list[PendingTransaction]:
    """Return the oldest transactions of a table, looked up in the half topic."""
    found: list[PendingTransaction] = []
    first, chosen = 0, 1
    while first < chosen and len(found) < most:
        halves, chosen = table.page(
            "age", first, most, group=group, stored_until_ms=stored_until_ms
        )
        # Another group may have the same hash.
        found += [one for one in look_up(reader, halves) if group in (None, one.group)]
        first += most
    return found[:most]


def half_reader(settings: Settings) -> RecordReader:
    """Return a reader of the half topic for operators; the caller closes it."""
    return RecordReader(
        settings.connection(), settings.topics.half, silence_polls_max=SILENCE_POLLS_MAX
    )


def look_up(reader: RecordSource, halves: Iterable[PendingHalf]) -> list[PendingTransaction]:
    """Return the transactions of pending halves, in the same order."""
    transactions = []
    left = iter(halves)
    while part := list(islice(left, RECORDS_AT_ONCE)):
        by_place = {Position(half.partition, half.offset): half for half in part}
        found = records_at(reader, by_place)
        for at, half in by_place.items():
            headers = _headers(found[at])
            shown = [names.text_value(headers, one) or "" for one in _SHOWN]
            transactions.append(PendingTransaction(half, *shown))
    return transactions


def groups_pending(
    reader: RecordSource, groups: Collection[PendingGroup]
) -> list[tuple[str, PendingGroup]]:
    """Return what is pending by group name, "" if the half is gone from its topic."""
    places = [Position(group.partition, group.offset) for group in groups]
    found = records_at(reader, places)
    named = [
        (names.text_value(_headers(found[at]), names.PGROUP) or "", group)
        for at, group in zip(places, groups, strict=True)
    ]
    return sorted(named, key=lambda one: one[0])


def records_at(
    reader: RecordSource, positions: Iterable[Position]
) -> dict[Position, PlacedRecord | None]:
    """Return the record at each position, None where it is gone."""
    by_partition: dict[int, list[int]] = {}
    for at in sorted(set(positions)):
        by_partition.setdefault(at.partition, []).append(at.offset)
    return {
        Position(partition, offset): message
        for partition, offsets in by_partition.items()
        for offset, message in reader.read(partition, np.array(offsets, np.int64))
    }


_SHOWN: Final = (names.UNIQ_KEY, names.PGROUP, names.REAL_TOPIC)


def _headers(message: PlacedRecord | None) -> Headers:
    found = [] if message is None else message.headers() or []
    return [(name, value or b"") for name, value in found]
