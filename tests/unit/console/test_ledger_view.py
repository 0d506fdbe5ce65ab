"""What is pending, by tables that follow the ledger batch by batch."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import PyFileSystem
from tests.unit.console.console_stage import NOW_MS, new_ledger, write_batch
from tests.unit.ledger_pending import read_pending

from checkback.console import ledger_view
from checkback.console.ledger_view import (
    FIRST_LOOK_S,
    LOOK_BACK_MS,
    SORTS,
    LedgerView,
    PendingFilter,
    unread_rows,
)
from checkback.operations.positions import Position
from checkback.protocol.errors import NotFoundError
from checkback.sinks.ledger.maintenance import maintain
from checkback.sinks.ledger.table import DeltaLedger


@pytest.fixture
def ledger(tmp_path: Path) -> DeltaLedger:
    made = new_ledger(tmp_path / "ledger")
    write_batch(made, 0, *(("prepared", offset) for offset in range(6)), ("checked", 4))
    return made


def offsets(view: LedgerView, chosen: PendingFilter | None = None, sort: str = "age") -> list[int]:
    page = view.page(chosen or PendingFilter(), sort, 0, 100)
    assert page.total == len(page.rows)
    return [row["half_offset"] for row in page.rows]


def test_it_follows_the_ledger_and_agrees_with_the_command(ledger: DeltaLedger) -> None:
    view = LedgerView(ledger.path)
    assert view.refresh()
    assert not view.refresh(), "nothing new"

    write_batch(ledger, 1, ("committed", 0), ("rolled_back", 1), ("checked", 2), ("checked", 4))
    write_batch(ledger, 2, ("discarded", 2), ("prepared", 7), ("refused", 3))
    assert view.refresh()

    listed = read_pending(DeltaLedger.open(ledger.path))
    assert offsets(view) == [row["half_offset"] for row in listed] == [7, 5, 4, 3]
    by_offset = {row["half_offset"]: row for row in view.page(PendingFilter(), "age", 0, 9).rows}
    assert {offset: row["check_times"] for offset, row in by_offset.items()} == {
        7: 0, 5: 0, 4: 2, 3: 0,
    }  # fmt: skip
    assert by_offset[4]["asked_ms"] == NOW_MS
    assert by_offset[7]["asked_ms"] is None
    assert view.totals() == {
        "prepared": 7, "checked": 3, "committed": 1, "rolled_back": 1, "discarded": 1, "refused": 1,
    }  # fmt: skip
    assert view.by_reason("refused") == {"OP_WITHOUT_HALF": 1}
    assert view.by_reason("discarded") == {"check limit": 1}


def test_only_batches_that_are_new_are_read(ledger: DeltaLedger) -> None:
    """With every row of the last ten minutes a look at a busy ledger took seconds of two."""
    write_batch(ledger, 1, ("committed", 0))
    write_batch(ledger, 2, ("committed", 1), ("prepared", 7))
    rows = DeltaLedger.open(ledger.path).table.to_pyarrow_dataset()

    def batches(seen: dict[str, int], newest_ms: int = NOW_MS) -> list[int]:
        found = rows.to_table(["batch_id"], unread_rows(newest_ms, seen))
        return sorted(set(found["batch_id"].to_pylist()))

    assert batches({"query": 1}) == [2]
    assert batches({"query": 1, "another": 7}) == [2]
    assert batches({"another": 7}) == [0, 1, 2], "of a query that began since"
    assert batches({"query": 2}) == []
    assert batches({}, NOW_MS + LOOK_BACK_MS + 1) == []


@pytest.mark.parametrize("name", ["ledger", "led ger é"])
def test_python_opens_no_file_for_duckdb(tmp_path: Path, name: str) -> None:
    """Else Arrow and Python wait for each other's locks, now and then, and the console hangs."""
    made = new_ledger(tmp_path / name)
    write_batch(made, 0, ("prepared", 3))
    view = LedgerView(made.path)

    view.refresh()

    assert offsets(view) == [3]
    assert not isinstance(view._dataset().filesystem, PyFileSystem)


def test_duckdb_reads_rows_in_memory_where_python_has_to_open_the_files(
    ledger: DeltaLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_view, "_native_filesystem", lambda _uri: None)  # an object store
    view = LedgerView(ledger.path)
    cursor = view._db.cursor()
    view._ledger = ledger

    assert isinstance(view._unread(cursor), pa.Table)

    view.refresh()
    assert len(offsets(view)) == 6


def test_rows_are_counted_once_when_files_are_joined(ledger: DeltaLedger) -> None:
    view = LedgerView(ledger.path)
    view.refresh()
    write_batch(ledger, 1, ("committed", 0))
    view.refresh()
    maintain(DeltaLedger.open(ledger.path), 168)

    assert view.refresh()

    assert view.totals() == {"prepared": 6, "checked": 1, "committed": 1}
    assert 0 not in offsets(view)


def test_a_batch_is_seen_although_its_time_is_before_the_last_ones(ledger: DeltaLedger) -> None:
    view = LedgerView(ledger.path)
    view.refresh()
    write_batch(ledger, 1, ("committed", 5), time_ms=NOW_MS - 300_000)

    view.refresh()

    assert 5 not in offsets(view)


def test_a_page_is_chosen_sorted_and_cut(ledger: DeltaLedger) -> None:
    view = LedgerView(ledger.path)
    view.refresh()

    assert offsets(view, PendingFilter(group="payment-service")) == [4, 1]
    assert offsets(view, PendingFilter(topic="orders-paid")) == [3, 0]
    assert offsets(view, PendingFilter(group="o'; DROP TABLE pending")) == []
    assert offsets(view, PendingFilter(stored_until_ms=NOW_MS - 4 * 60_000)) == [5, 4]
    assert offsets(view, sort="newest") == [0, 1, 2, 3, 4, 5]
    assert offsets(view, sort="checks")[0] == 4
    assert all(sorted(offsets(view, sort=sort)) == [0, 1, 2, 3, 4, 5] for sort in SORTS)
    second = view.page(PendingFilter(), "age", 4, 4)
    assert ([row["half_offset"] for row in second.rows], second.total) == ([1, 0], 6)


def test_groups_and_single_transactions(ledger: DeltaLedger) -> None:
    view = LedgerView(ledger.path)
    view.refresh()

    groups = {row["producer_group"]: (row["pending"], row["oldest_ms"]) for row in view.groups()}
    assert groups["stock-service"] == (2, NOW_MS - 5 * 60_000)
    assert view.topics() == ["orders-paid", "payments-captured", "stock-reserved"]
    assert view.positions("0A0000000004C0FFEE00112233445566") == [Position(0, 4)]
    assert view.positions("nobody's") == []
    assert [row["event"] for row in view.events(Position(0, 4))] == ["prepared", "checked"]


def test_a_path_without_a_ledger_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        LedgerView(str(tmp_path / "none")).refresh()


def test_who_asks_a_ledger_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    """Not after the half minute that a first look at a large one may take."""
    view = LedgerView(str(tmp_path / "ledger"))
    with pytest.raises(NotFoundError):
        view.refresh()
    before_s = time.monotonic()
    with pytest.raises(NotFoundError, match="There is no ledger"):
        view.groups()
    assert time.monotonic() - before_s < FIRST_LOOK_S / 2

    write_batch(new_ledger(tmp_path / "ledger"), 0, ("prepared", 1))
    view.refresh()
    assert [row["pending"] for row in view.groups()] == [1]
