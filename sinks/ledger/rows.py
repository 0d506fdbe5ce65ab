"""Turns outcomes into ledger rows, as Arrow columns.

Numbers come from the outcomes' arrays, names from the headers of the records that the sink reads
for its finals anyway; both are put together by position, so that no row is ever a Python object.
Nothing here depends on what Kafka took: a replayed batch gives the same rows, although Kafka
already has its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from checkback.protocol.records import DISCARDED_CHECK_LIMIT, DISCARDED_EXPIRED
from checkback.protocol.refusals import RefusedReason
from checkback.sinks.kafka.read.record_reader import RecordSource
from checkback.sinks.ledger.notes import FindNames, HeaderCollectingReader, Ints
from checkback.sinks.lookups import Chosen, chosen_by_partition, joined
from checkback.sinks.partition.parts import only_rows
from checkback.sinks.report import BatchReport
from checkback.state import Action, Outcome

LEDGER_SCHEMA: Final = pa.schema(
    [
        ("event", pa.string()),
        ("transaction_id", pa.string()),
        ("producer_group", pa.string()),
        ("real_topic", pa.string()),
        ("half_partition", pa.int32()),
        ("half_offset", pa.int64()),
        ("store_time", pa.timestamp("us", "UTC")),
        ("event_time", pa.timestamp("us", "UTC")),
        ("check_times", pa.int32()),
        ("reason", pa.string()),
        ("op_offset", pa.int64()),
        ("batch_id", pa.int64()),
        ("query_id", pa.string()),
        ("day", pa.date32()),
    ]
)
"""What each column means is in docs/ledger.md."""
ROWS_PER_BLOB: Final = 131_072
_DAY_MS: Final = 86_400_000

_EVENTS: Final[Mapping[Action, str]] = {
    Action.PREPARED: "prepared",
    Action.COMMIT: "committed",
    Action.ROLLBACK: "rolled_back",
    Action.CHECK: "checked",
    Action.DISCARD_CHECK_LIMIT: "discarded",
    Action.DISCARD_EXPIRED: "discarded",
    Action.REFUSE_HALF: "refused",
    Action.REFUSE_OP: "refused",
    Action.DELIVERED: "committed",
}
DIRECT: Final = "direct"
"""Reason of a commit whose final message a relay had written (earlier: the producer)."""
_COUNTING: Final = (Action.CHECK, Action.DISCARD_CHECK_LIMIT, Action.DISCARD_EXPIRED)
"""Their detail is the number of check requests."""
_REFUSING: Final = (Action.REFUSE_HALF, Action.REFUSE_OP)
_NAMING_NO_HALF: Final = (
    RefusedReason.OP_OFFSET_UNREADABLE,
    RefusedReason.OP_STATE_UNKNOWN,
    RefusedReason.OP_WITHOUT_GROUP,
    RefusedReason.OP_WITHOUT_TRANSACTION_ID,
    RefusedReason.OP_TAG_UNKNOWN,
)
"""Refused before its half was known: the offset in such an outcome is the op's own."""
_REASONS: Final = (
    DISCARDED_CHECK_LIMIT, DISCARDED_EXPIRED, *(reason.name for reason in RefusedReason), DIRECT,
)  # fmt: skip
_REASON_PLACE: Final = np.zeros(max(RefusedReason) + 1, np.int32)
_REASON_PLACE[list(RefusedReason)] = np.arange(3, 3 + len(RefusedReason))

WriteOutcomes = Callable[
    [Sequence[Outcome], HeaderCollectingReader, HeaderCollectingReader], BatchReport
]
"""Writes outcomes to Kafka; looks records of the half and the op topic up by these two."""


@dataclass(frozen=True, slots=True)
class LedgerBatch:
    """The batch of ledger rows."""

    query_id: str
    batch_id: int


def write_noting(
    outcomes: Sequence[Outcome],
    batch: LedgerBatch,
    halves: RecordSource,
    ops: RecordSource,
    write: WriteOutcomes,
    find_names: FindNames | None = None,
) -> tuple[BatchReport, list[pa.RecordBatch]]:
    """Write outcomes to Kafka; return the report and the ledger rows of the batch.

    Args:
        outcomes: of the pages of one state partition, with Action.PREPARED rows.
        write: writes the outcomes, without those rows, to Kafka. If the batch is written already,
            it reads nothing.
        find_names: finds names of halves faster than by reading them.
    """
    decided = [_Rows.of(outcomes, of_ops=of_ops) for of_ops in (False, True)]
    noting = [
        HeaderCollectingReader(source, {one.partition: np.unique(one.record) for one in rows}, find)
        for source, rows, find in zip((halves, ops), decided, (find_names, None), strict=True)
    ]
    report = write([without_prepared(one) for one in outcomes], *noting)
    made = [
        rows.with_names(reader, batch)
        for reader, several in zip(noting, decided, strict=True)
        for rows in several
    ]
    return report, made


def without_prepared(outcome: Outcome) -> Outcome:
    """Return the outcome without its Action.PREPARED rows: there is nothing to do for them."""
    kept = outcome.action != Action.PREPARED
    if kept.all():
        return outcome
    return only_rows(outcome, kept)


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the rows as Arrow streams of bounded size, small enough to be cells of a row."""
    table = pa.Table.from_batches(batches, LEDGER_SCHEMA).combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for first in range(0, len(table), ROWS_PER_BLOB):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, LEDGER_SCHEMA, options=options) as stream:
            stream.write_table(table.slice(first, ROWS_PER_BLOB))
        yield sink.getvalue().to_pybytes()


def unpacked(blobs: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that `packed` packed."""
    for blob in blobs:
        yield from pa.ipc.open_stream(blob)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Ledger rows of one partition, of halves or of refused ops.

    Args:
        of_ops: whether they speak of refused ops.
        action: uint8[n].
        half: int64[n], offset of the half.
        detail: int32[n].
        record: int64[n], offset of the record that has the names: the half, or the op.
    """

    partition: int
    now_ms: int
    of_ops: bool
    action: NDArray[np.uint8]
    half: Ints
    detail: NDArray[np.int32]
    record: Ints

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], *, of_ops: bool) -> list[_Rows]:
        """Return the rows by partition, those without any left out."""
        chosen = chosen_by_partition(
            outcomes, lambda action: (action == Action.REFUSE_OP) == of_ops
        )
        return [cls._of(number, of_ops, found) for number, found in chosen.items()]

    @classmethod
    def _of(cls, partition: int, of_ops: bool, found: Chosen) -> _Rows:
        half, action, detail = (joined(found, one) for one in ("offset", "action", "detail"))
        record = joined(found, "source_offset") if of_ops else half
        return cls(partition, found[0][0].now_ms, of_ops, action, half, detail, record)

    def with_names(self, reader: HeaderCollectingReader, batch: LedgerBatch) -> pa.RecordBatch:
        """Return them as rows of the ledger; the reader noted the names."""
        names = reader.names(self.partition)
        at = pa.array(np.searchsorted(reader.wanted[self.partition], self.record))
        count = len(self.action)
        columns = {
            "event": _texts_or_null(*(_EVENTS[action] for action in Action)).take(
                pa.array(self.action)
            ),
            "transaction_id": names.transaction_id.take(at),
            "producer_group": names.producer_group.take(at),
            "real_topic": names.real_topic.take(at),
            "half_partition": _repeated(self.partition, count, pa.int32()),
            "half_offset": self._half_offset(),
            "store_time": self._store_time(names.time_ms.take(at)),
            "event_time": _repeated(self.now_ms * 1_000, count, pa.timestamp("us", "UTC")),
            "check_times": self._check_times(),
            "reason": self._reason(),
            "op_offset": pa.array(self.record) if self.of_ops else pa.nulls(count, pa.int64()),
            "batch_id": _repeated(batch.batch_id, count, pa.int64()),
            "query_id": _repeated(batch.query_id, count, pa.string()),
            "day": _repeated(self.now_ms // _DAY_MS, count, pa.date32()),
        }
        return pa.RecordBatch.from_pydict(columns, schema=LEDGER_SCHEMA)

    def _half_offset(self) -> pa.Array:
        unknown = np.isin(self.detail, _NAMING_NO_HALF) if self.of_ops else None
        return pa.array(self.half, mask=unknown)

    def _store_time(self, time_ms: pa.Array) -> pa.Array:
        if self.of_ops:  # that is the op's time, not that of the half
            return pa.nulls(len(self.action), pa.timestamp("us", "UTC"))
        return time_ms.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))

    def _check_times(self) -> pa.Array:
        return pa.array(self.detail, pa.int32(), mask=~np.isin(self.action, _COUNTING))

    def _reason(self) -> pa.Array:
        place = np.zeros(len(self.action), np.int32)
        place[self.action == Action.DISCARD_CHECK_LIMIT] = 1
        place[self.action == Action.DISCARD_EXPIRED] = 2
        place[self.action == Action.DELIVERED] = len(_REASONS)
        refused = np.isin(self.action, _REFUSING)
        place[refused] = _REASON_PLACE[self.detail[refused]]
        return _texts_or_null(*_REASONS).take(pa.array(place))


@cache
def _texts_or_null(*texts: str) -> pa.Array:
    """Return the texts with a null before them, at place 0.

    Made on first use: pyarrow then imports pandas, which costs a sink process 0.3 s and 50 MB.
    """
    return pa.array([None, *texts])


def _repeated(value: object, count: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)
