"""Tables for people: no cell is cut, wrapped or broken, however narrow the terminal."""

from __future__ import annotations

import pytest

from checkback.commands.pending import HEADINGS
from checkback.commands.shared.output import list_text, table_text, terminal_columns
from checkback.commands.tx import history_text
from checkback.operations.topics.position import Position
from checkback.operations.transactions.history import HistoryEvent, TransactionHistory

PENDING = [
    ("7F0000010A2B18B4AAC217BE0001000" + str(one), "orders-service", "paid-orders-of-today",
     "0:1234567", "2m47s", 0, "7m12s")
    for one in range(3)
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def test_a_row_wider_than_the_terminal_is_a_block_and_every_cell_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    blocks = table_text(HEADINGS, PENDING).split("\n\n")

    assert len(blocks) == len(PENDING)
    for row, block in zip(PENDING, blocks, strict=True):
        shown = dict(line.rsplit("  ", 1) for line in block.splitlines())
        found = [(heading.strip(), cell.strip()) for heading, cell in shown.items()]
        assert found == [*zip(HEADINGS, map(str, row), strict=True)]


def test_without_a_terminal_a_row_is_a_line() -> None:
    lines = table_text(HEADINGS, PENDING).splitlines()

    assert [len(line.split("  ")) >= len(HEADINGS) for line in lines] == [True] * 4


def test_a_table_that_fits_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = table_text(HEADINGS, PENDING)
    monkeypatch.setenv("COLUMNS", str(max(map(len, wide.splitlines()))))

    assert table_text(HEADINGS, PENDING) == wide


def test_a_row_is_one_line_and_whole_however_wide() -> None:
    row = ("i" * 1_024, "g" * 255, "b" * 5_000)

    assert table_text(("id", "group", "body"), [row]).splitlines()[1].split() == list(row)


def test_programs_that_read_the_output_name_no_width() -> None:
    assert terminal_columns() is None  # pytest captures the output


def test_columns_of_the_environment_count_as_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")

    assert terminal_columns() == 72


def test_a_history_fits_the_terminal_and_is_one_line_for_each_event_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = Position(0, 1_234_567)
    refused = {"reason": "OP_WITHOUT_HALF", "says": "no half message came for this op " * 4}
    events = (
        HistoryEvent("half", 1_700_000_000_000, "RMQ_SYS_TRANS_HALF_TOPIC", at, {"key": "k"}),
        HistoryEvent("refused", 1_700_000_001_000, "RMQ_SYS_TRANS_REFUSED_TOPIC", at, refused),
    )
    history = TransactionHistory(
        at,
        "7F0000010A2B18B4AAC217BE00010000",
        "orders-service",
        "paid-orders",
        "refused",
        "",
        events,
    )

    wide = history_text(history).splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    narrow = history_text(history).splitlines()

    assert max(map(len, narrow)) <= 80
    assert narrow[0].startswith("transaction 7F0000010A2B18B4AAC217BE00010000  half 0:1234567")
    assert "key=k" in "".join(narrow)
    assert "OP_WITHOUT_HALF" in "".join(narrow)
    assert len(wide) == 2 + len(events)


@pytest.mark.parametrize(
    ("is_filtered", "said"), [(False, "None yet."), (True, "Nothing matches.")]
)
def test_a_list_without_rows_is_a_sentence(is_filtered: bool, said: str) -> None:
    assert list_text(["id"], [], "None yet.", is_filtered=is_filtered) == said
    assert list_text(["id"], [["a"]], "None yet.", is_filtered=is_filtered) == "id\na"
