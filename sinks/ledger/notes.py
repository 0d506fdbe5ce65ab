"""Notes the names in the sink's records while the sink reads them.

The ledger wants the names of every transaction that something happened to, the sink the bodies of
some of them. One pass over the topic serves both: a reader in place of the sink's own reads what
either needs, returns what the sink asked for, and keeps the names of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from checkback.protocol.properties import PGROUP, REAL_TOPIC, UNIQ_KEY, first_value
from checkback.protocol.refusals import ID_BYTES_MAX
from checkback.sinks.kafka.read.record_reader import RecordSource
from checkback.sinks.native.clients import NativeNotes
from checkback.sinks.records.source_record import PlacedRecord

NOTED_HEADERS: Final = (UNIQ_KEY, PGROUP, REAL_TOPIC)
NOTED_BYTES_MAX: Final = ID_BYTES_MAX
"""No accepted half has longer names. The names of a refused half can be megabytes: two thousand
such halves in a batch were more than an Arrow column takes, and ended the job at every start."""
CHUNK_RECORDS: Final = 4_096
"""After this many names they are packed: as Python objects a million names would take 300 MB."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """The names in records, a row for each; null where the record is gone or has no such name.

    Args:
        transaction_id: strings, of their bytes the first NOTED_BYTES_MAX.
        producer_group: the same.
        real_topic: the same.
        time_ms: int64, the broker's time of the record.
    """

    transaction_id: pa.Array
    producer_group: pa.Array
    real_topic: pa.Array
    time_ms: pa.Array


FindNames = Callable[[int, Ints], TransactionNames]
"""From (partition, offsets) to the names in those records, as HeaderCollectingReader finds them."""


@dataclass(slots=True)
class _Notes:
    """A growing, packed list of names."""

    ids: list[bytes | None] = field(default_factory=list)
    groups: list[bytes | None] = field(default_factory=list)
    topics: list[bytes | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    packed: list[tuple[pa.Array, ...]] = field(default_factory=list)

    def add(self, record: PlacedRecord | None) -> None:
        headers = None if record is None else record.headers()
        self.groups.append(_named(headers, PGROUP))
        self.ids.append(_named(headers, UNIQ_KEY))
        self.topics.append(_named(headers, REAL_TOPIC))
        kind, time_ms = (0, 0) if record is None else record.timestamp()
        self.times.append(time_ms if kind else None)
        if len(self.ids) == CHUNK_RECORDS:
            self._pack()

    def names(self) -> TransactionNames:
        self._pack()
        columns = zip(*self.packed, strict=True)
        return TransactionNames(*(pa.concat_arrays(chunks) for chunks in columns))

    def _pack(self) -> None:
        times = pa.array(self.times, pa.int64())
        named = (self.ids, self.groups, self.topics)
        texts = (_strings(pa.array(values, pa.binary())) for values in named)
        self.packed.append((*texts, times))
        for values in (*named, self.times):
            values.clear()


@dataclass(slots=True)
class HeaderCollectingReader:
    """A reader of one topic that notes the names in the records of one batch.

    Args:
        wanted: int64[n] by partition: the offsets to note, ascending, without repeats; the sink
            asks for no others.
    """

    source: RecordSource
    wanted: Mapping[int, Ints]
    find_names: FindNames | None = None
    _names: dict[int, TransactionNames] = field(default_factory=dict)

    def read(self, partition: int, offsets: Ints) -> Iterator[tuple[int, PlacedRecord | None]]:
        """Yield (offset, record) for the offsets asked for, as RecordReader does."""
        if partition in self._names:
            yield from self.source.read(partition, offsets)
            return
        every = self.wanted[partition]
        is_asked = np.isin(every, offsets, assume_unique=True).tolist()
        notes = _Notes()
        for one, asked in zip(self.source.read(partition, every), is_asked, strict=True):
            notes.add(one[1])
            if asked:
                yield one
        self._names[partition] = notes.names()

    def close(self) -> None:
        """Do nothing: the source is its owner's to close."""

    def keep(self, partition: int, names: TransactionNames) -> None:
        """Add the names that forward.c found at the wanted offsets of a partition."""
        self._names[partition] = names

    def names(self, partition: int) -> TransactionNames:
        """Return the names of the wanted offsets of a partition; read now unless they were."""
        if partition not in self._names and self.find_names is not None:
            self.keep(partition, self.find_names(partition, self.wanted[partition]))
        if partition not in self._names:
            for _ in self.read(partition, self.wanted[partition][:0]):
                pass
        return self._names[partition]


def _named(headers: list[tuple[str, bytes]] | None, name: str) -> bytes | None:
    value = first_value(headers or [], name)
    return None if value is None else value[:NOTED_BYTES_MAX]


def names_of(notes: NativeNotes) -> TransactionNames:
    """Return what forward.c noted of the headers NOTED_HEADERS."""
    ids, groups, topics = (_strings(_noted(notes, number)) for number in range(len(NOTED_HEADERS)))
    return TransactionNames(
        ids, groups, topics, pa.array(notes.time_ms_rows, mask=~notes.has_time_rows)
    )


def _noted(notes: NativeNotes, number: int) -> pa.Array:
    is_there = np.packbits(notes.is_there_rows[number], bitorder="little")
    buffers = (is_there.tobytes(), notes.ends_rows[number].tobytes(), notes.values(number))
    count = len(notes.time_ms_rows)
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(one) for one in buffers])


def _strings(raw: pa.Array) -> pa.Array:
    """Return binary values as strings; bytes that are no UTF-8 are replaced, as everywhere."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = raw.to_pylist()
        texts = [None if one is None else one.decode("utf-8", "replace") for one in values]
        return pa.array(texts, pa.string())
