"""The Delta table itself: real files, no Spark and no Kafka."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from tests.unit.ledger_pending import read_pending

from checkback.commands.shared.app import NOUNS, LazyGroup
from checkback.protocol.errors import (
    CheckpointError,
    ConfigurationError,
    NotFoundError,
    PrerequisiteError,
    UsageError,
)
from checkback.sinks.ledger.maintenance import maintain, require_safe
from checkback.sinks.ledger.rows import LEDGER_SCHEMA, LedgerBatch, packed
from checkback.sinks.ledger.table import DeltaLedger, LedgerOwner

OWNER = LedgerOwner("orders", "topic-id")
START = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def blobs(*rows: tuple[str, int], at: datetime = START) -> list[bytes]:
    """Rows of (event, half offset), packed."""
    made = [
        {
            "event": event,
            "transaction_id": f"id-{offset}",
            "producer_group": "odd" if offset % 2 else "even",
            "real_topic": "orders",
            "half_partition": 0,
            "half_offset": offset,
            "store_time": at.replace(minute=offset),
            "event_time": at,
            "check_times": 1 if event == "checked" else None,
            "batch_id": 0,
            "query_id": "q",
            "day": at.date(),
        }
        for event, offset in rows
    ]
    return list(packed([pa.RecordBatch.from_pylist(made, schema=LEDGER_SCHEMA)]))


def offsets(path: str) -> list[int]:
    found: list[int] = DeltaTable(path).to_pyarrow_table().column("half_offset").to_pylist()
    return sorted(found)


def run(*arguments: str) -> dict[str, Any]:
    told = CliRunner().invoke(LazyGroup(NOUNS), [*arguments, "--output", "json"])
    assert told.exit_code == 0, told.output
    return dict(json.loads(told.output))


def test_a_batch_that_is_given_again_is_written_once(path: str) -> None:
    ledger = DeltaLedger.open_or_create(path, OWNER)

    assert ledger.last_batch("q") is None
    assert ledger.append(LedgerBatch("q", 3), blobs(("prepared", 1)))
    assert not ledger.append(LedgerBatch("q", 3), blobs(("prepared", 1)))
    again = DeltaLedger.open_or_create(path, OWNER)
    assert not again.append(LedgerBatch("q", 3), blobs(("prepared", 1)))
    assert again.append(LedgerBatch("q", 4), blobs(("prepared", 2)))
    assert again.append(LedgerBatch("another query", 0), blobs(("prepared", 3)))

    assert offsets(path) == [1, 2, 3]
    assert again.last_batch("q") == 4


def test_a_ledger_that_is_ahead_of_the_checkpoint_is_refused(path: str) -> None:
    ledger = DeltaLedger.open_or_create(path, OWNER)
    ledger.append(LedgerBatch("q", 3), blobs(("prepared", 1)))

    ledger.require_not_ahead("q", 3)
    ledger.require_not_ahead("another query", -1)
    with pytest.raises(CheckpointError, match="an older copy"):
        ledger.require_not_ahead("q", 2)
    with pytest.raises(CheckpointError, match="an older copy"):
        ledger.append(LedgerBatch("q", 2), blobs(("prepared", 0)))

    assert offsets(path) == [1]


def test_of_two_that_write_a_batch_at_the_same_moment_one_does(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = DeltaLedger.open_or_create(path, OWNER)
    second = DeltaLedger.open_or_create(path, OWNER)
    monkeypatch.setattr(DeltaLedger, "last_batch", lambda *_: None)  # what both writers saw
    first.append(LedgerBatch("q", 0), blobs(("prepared", 1)))

    with pytest.raises(PrerequisiteError, match="Concurrent transaction"):
        second.append(LedgerBatch("q", 0), blobs(("prepared", 1)))

    assert offsets(path) == [1]


def test_the_job_itself_keeps_the_number_of_files_small(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkback.sinks.ledger.table.COMPACT_EVERY", 4)
    ledger = DeltaLedger.open_or_create(path, OWNER)

    for number in range(11):
        ledger.append(LedgerBatch("q", number), blobs(("prepared", number)))

    assert offsets(path) == list(range(11))
    assert len(DeltaTable(path).file_uris()) == 4
    assert DeltaLedger.open_or_create(path, OWNER).last_batch("q") == 10


def test_any_delta_reader_can_read_it(path: str) -> None:
    DeltaLedger.open_or_create(path, OWNER).append(LedgerBatch("q", 0), blobs(("prepared", 1)))

    table = DeltaTable(path)

    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert table.metadata().partition_columns == ["day"]
    [action] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert action["partition.day"] == START.date()


def test_a_table_of_somebody_else_is_refused(path: str, tmp_path: Path) -> None:
    DeltaLedger.open_or_create(path, OWNER)
    other = str(tmp_path / "other")
    DeltaTable.create(other, pa.schema([("x", pa.int64())]))

    for theirs, owner in (
        (path, LedgerOwner("payments", "topic-id")),
        (path, LedgerOwner("orders", "recreated")),
        (other, OWNER),
    ):
        with pytest.raises(ConfigurationError, match="not the ledger of"):
            DeltaLedger.open_or_create(theirs, owner)


def test_a_path_that_is_no_ledger_is_told_in_a_sentence(path: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        DeltaLedger.open(path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(PrerequisiteError, match="can't be read or written"):
        DeltaLedger.open_or_create(str(file / "ledger"), OWNER)
    ledger = DeltaLedger.open_or_create(f"{path}[1]", OWNER)
    with pytest.raises(PrerequisiteError, match="can't be read or written"):
        # delta-rs panics, which is no Exception.
        ledger.append(LedgerBatch("q", 0), blobs(("prepared", 0)))


def filled(path: str) -> DeltaLedger:
    ledger = DeltaLedger.open_or_create(path, OWNER)
    for batch in range(3):
        ledger.append(LedgerBatch("q", batch), blobs(("prepared", batch)))
    return ledger


def test_a_ledger_that_is_removed_beside_the_job_is_told_and_the_next_start_makes_another(
    path: str,
) -> None:
    ledger = filled(path)
    shutil.rmtree(path)

    with pytest.raises(PrerequisiteError, match="can't be read or written"):
        ledger.append(LedgerBatch("q", 3), blobs(("prepared", 3)))

    DeltaLedger.open_or_create(path, OWNER).append(LedgerBatch("q", 3), blobs(("prepared", 3)))
    assert offsets(path) == [3]


@pytest.mark.parametrize("left", [None, b"{", b"\xff\x00"])
def test_a_start_refuses_a_ledger_whose_log_is_damaged_and_takes_one_in_its_place(
    path: str, left: bytes | None
) -> None:
    filled(path)
    entry = Path(path, "_delta_log", f"{2:020}.json")
    entry.unlink()
    if left is not None:
        entry.write_bytes(left)

    with pytest.raises(PrerequisiteError, match="can't be read or written"):
        DeltaLedger.open_or_create(path, OWNER).last_batch("q")

    Path(path).rename(f"{path}.damaged")
    DeltaLedger.open_or_create(path, OWNER).append(LedgerBatch("q", 3), blobs(("prepared", 3)))
    assert offsets(path) == [3]


def test_pending_is_what_was_prepared_and_has_no_verdict(path: str) -> None:
    ledger = DeltaLedger.open_or_create(path, OWNER)
    ledger.append(LedgerBatch("q", 0), blobs(*(("prepared", offset) for offset in range(6))))
    ledger.append(
        LedgerBatch("q", 1),
        blobs(("committed", 0), ("rolled_back", 1), ("discarded", 2), ("checked", 4)),
    )

    found = read_pending(ledger)

    shown = [(row["half_offset"], row["check_times"], row["asked_time"]) for row in found]
    assert shown == [(3, 0, None), (4, 1, START), (5, 0, None)]
    assert found[0]["transaction_id"] == "id-3"


def test_maintenance_puts_files_together_and_deletes_what_was_replaced(path: str) -> None:
    ledger = DeltaLedger.open_or_create(path, OWNER)
    for number in range(5):
        ledger.append(LedgerBatch("q", number), blobs(("prepared", number)))

    first = maintain(DeltaLedger.open(path), 168)
    assert ledger.append(LedgerBatch("q", 5), blobs(("prepared", 5))), "the job goes on meanwhile"
    second = maintain(DeltaLedger.open(path), 0)

    assert (first.files_compacted, first.files_written, first.files_deleted) == (5, 1, 0)
    assert (second.files_compacted, second.files_deleted) == (2, 7)
    assert offsets(path) == list(range(6))
    assert len(list(Path(path).glob("day=*/*.parquet"))) == 1
    assert ledger.last_batch("q") == 5, "forgotten by the checkpoint of the log"


@pytest.mark.parametrize(
    ("retention", "force", "is_safe"),
    [(168, False, True), (167, False, False), (1, True, True), (0, True, False)],
)
def test_no_file_is_deleted_that_a_reader_may_need(
    retention: int, *, force: bool, is_safe: bool
) -> None:
    if is_safe:
        require_safe(retention, force=force)
    else:
        with pytest.raises(UsageError):
            require_safe(retention, force=force)


def test_the_commands_tell_it_as_data(path: str) -> None:
    ledger = DeltaLedger.open_or_create(path, OWNER)
    ledger.append(LedgerBatch("q", 0), blobs(("prepared", 1), ("prepared", 2)))
    ledger.append(LedgerBatch("q", 1), blobs(("checked", 2)))

    told = run("ledger", "maintain", "--set", f"ledger={path}", "--retention", "8d")
    assert (told["files_compacted"], told["retention_hours"]) == (2, 192)


def test_every_column_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text("utf-8")

    assert {name for name in LEDGER_SCHEMA.names if f"| `{name}` |" in text} == set(
        LEDGER_SCHEMA.names
    )
