"""Ledger rows depend only on the outcomes and on the records that they name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message
from tests.deciding import Decided, message, page_outcome, plain_half

from checkback.protocol.properties import PGROUP, REAL_TOPIC, UNIQ_KEY
from checkback.protocol.refusals import RefusedReason
from checkback.sinks.kafka.read.record_reader import RecordSource
from checkback.sinks.ledger import rows as ledger_rows
from checkback.sinks.ledger.rows import LEDGER_SCHEMA, LedgerBatch, packed, unpacked, write_noting
from checkback.sinks.lookups import half_lookups, op_lookups
from checkback.sinks.report import BatchReport
from checkback.state import Action, Outcome

NOW = 1_700_000_000_123
BATCH = LedgerBatch("query", 7)


class Topic:
    """Partitions of records in memory; it counts how often each record is read."""

    def __init__(self, records: dict[tuple[int, int], Any]) -> None:
        self.records = records
        self.read_offsets: list[tuple[int, int]] = []

    def read(self, partition: int, offsets: Any) -> Iterator[tuple[int, Message | None]]:
        for offset in offsets.tolist():
            self.read_offsets.append((partition, offset))
            yield offset, self.records.get((partition, offset))

    def close(self) -> None:
        pass


def half(offset: int, transaction_id: str = "", group: str = "g") -> Any:
    name = transaction_id or f"id-{offset}"
    headers = plain_half(name, "orders", group)
    return message(headers=headers, timestamp=(2, NOW - 1_000 - offset))


def outcome(partition: int, *decided: Decided) -> Outcome:
    return page_outcome(partition, *decided, now_ms=NOW)


def of_half(action: Action, offset: int, detail: int = 0) -> Decided:
    return action, offset, detail, offset


def sink(outcomes: Sequence[Outcome], halves: RecordSource, ops: RecordSource) -> BatchReport:
    """Look up the records that the Kafka output needs, as the sink does."""
    for source, lookups in ((halves, half_lookups(outcomes)), (ops, op_lookups(outcomes))):
        for lookup in lookups:
            found = [offset for offset, _ in source.read(lookup.partition, lookup.offset)]
            assert found == lookup.offset.tolist()
    assert not any((one.action == Action.PREPARED).any() for one in outcomes)
    return BatchReport(0)


def skipping(*_: object) -> BatchReport:
    """Stand in for a sink whose marker says that everything is written."""
    return BatchReport(0, skipped=True)


def rows(
    outcomes: list[Outcome], halves: Topic, ops: Topic | None = None, write: Any = sink
) -> list[dict[str, Any]]:
    _, batches = write_noting(outcomes, BATCH, halves, ops or Topic({}), write)
    found = pa.Table.from_batches(unpacked(packed(batches)), LEDGER_SCHEMA).to_pylist()
    return sorted(found, key=lambda row: (row["half_offset"] is None, str(row)))


def test_a_half_that_is_prepared_and_committed_in_one_batch_is_read_once() -> None:
    topic = Topic({(3, 5): half(5, "tx")})
    decided = outcome(3, of_half(Action.PREPARED, 5), of_half(Action.COMMIT, 5))

    found = rows([decided], topic)

    assert topic.read_offsets == [(3, 5)]
    assert [row["event"] for row in found] == ["committed", "prepared"]
    event_time = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert found[0] == {
        "event": "committed",
        "transaction_id": "tx",
        "producer_group": "g",
        "real_topic": "orders",
        "half_partition": 3,
        "half_offset": 5,
        "store_time": datetime(2023, 11, 14, 22, 13, 19, 118_000, UTC),
        "event_time": event_time,
        "check_times": None,
        "reason": None,
        "op_offset": None,
        "batch_id": 7,
        "query_id": "query",
        "day": date(2023, 11, 14),
    }


def test_a_name_that_is_null_is_kept_as_empty() -> None:
    nothing: Any = [("TRAN_MSG", b"true"), (PGROUP, None), (UNIQ_KEY, None), (REAL_TOPIC, None)]
    stored = [message(headers=one, timestamp=(2, NOW)) for one in (nothing, nothing[::-1])]
    topic = Topic({(0, at): one for at, one in enumerate(stored)})
    reason = RefusedReason.HALF_WITHOUT_GROUP
    decided = outcome(0, *(of_half(Action.REFUSE_HALF, at, reason) for at in (0, 1)))

    assert [row["transaction_id"] for row in rows([decided], topic)] == ["", ""]


@pytest.mark.parametrize("write", [sink, skipping])
def test_a_replayed_batch_gives_the_same_rows_whatever_kafka_needs(write: Any) -> None:
    records = {(number % 2, number): half(number) for number in range(40)}
    decided = [
        outcome(1, *(of_half(Action.PREPARED, number) for number in range(21, 40, 2))),
        outcome(0, *(of_half(Action.COMMIT, number) for number in range(0, 20, 2))),
        outcome(1, *(of_half(Action.ROLLBACK, number) for number in range(1, 20, 2))),
        outcome(0),
    ]

    found = rows(decided, Topic(records), write=write)

    assert [row["transaction_id"] for row in found] == [f"id-{row['half_offset']}" for row in found]
    assert len(found) == 30
    assert {row["event"] for row in found} == {"prepared", "committed", "rolled_back"}


def test_a_half_that_is_gone_or_says_nothing_readable_still_has_its_row() -> None:
    by_name = [("x", b"1"), (UNIQ_KEY, b"by name"), (REAL_TOPIC, b"o"), (PGROUP, b"g\xff")]
    stored = [message(headers=one, timestamp=(2, NOW)) for one in (by_name, [])]
    topic = Topic({(0, at): one for at, one in enumerate(stored, 1)})
    decided = outcome(0, *(of_half(Action.COMMIT, offset) for offset in (1, 2, 3)))

    found = rows([decided], topic)

    assert [row["transaction_id"] for row in found] == ["by name", None, None]
    assert found[0]["producer_group"] == "g\ufffd"
    assert [row["store_time"] is None for row in found] == [False, False, True]


def test_many_rows_are_packed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_rows, "ROWS_PER_BLOB", 3)
    count = 4
    topic = Topic({(0, offset): half(offset) for offset in range(count)})
    decided = outcome(0, *(of_half(Action.PREPARED, offset) for offset in range(count)))

    _, batches = write_noting([decided], BATCH, topic, Topic({}), sink)
    blobs = list(packed(batches))

    assert len(blobs) == 2
    table = pa.Table.from_batches(unpacked(blobs), LEDGER_SCHEMA)
    assert table.column("half_offset").to_pylist() == list(range(count))
    assert table.column("transaction_id").to_pylist() == [f"id-{one}" for one in range(count)]


def test_a_sink_process_does_without_pandas() -> None:
    """The imports took 0.3 of its 0.7 s and 50 of its 116 MB, with or without a ledger."""
    found = "import sys, checkback.sinks.process.server; sys.exit('pandas' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", found], check=False).returncode == 0
