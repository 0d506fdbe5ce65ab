"""What commands tell people fits the terminal, and no name in it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkback.commands import checkpoint
from checkback.commands.checkpoint import verification_text
from checkback.commands.doctor import findings_text
from checkback.commands.pending import HEADINGS
from checkback.commands.shared.app import execute
from checkback.commands.shared.output import (
    CommandOutput,
    list_text,
    table_text,
    terminal_columns,
    terminal_text,
)
from checkback.operations.checkpoint.verification import Problem, Verification
from checkback.operations.doctor.judgements import Diagnosis, Result
from checkback.protocol.errors import CheckbackError

TOPIC = "production-RMQ_SYS_TRANS_HALF_TOPIC"
FILE = "state/0/12/1234567_0123456789abcdef-0123456789abcdef.changelog"
PATH = "s3a://orders-and-payments/production/checkpoints/of-the-pipeline-in-eu-central"
SAYS = "The file is shorter than its checksum says, so that nobody can tell what it held."
REMEDY = "Run checkback checkpoint rebuild; it moves the damaged folder aside."
VERIFICATION = Verification(
    markers={0: 5, 1: 6}, problems=(Problem("torn", FILE, SAYS, REMEDY),) * 2, is_running=True
)
PENDING = [
    ("7F0000010A2B18B4AAC217BE0001000" + str(one), "orders-service", "paid-orders-of-today",
     "0:1234567", "2m47s", 0, "7m12s")
    for one in range(3)
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def test_a_text_fits_the_terminal_and_its_sentences_are_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = f"torn {FILE}: {SAYS} {REMEDY}"
    wide = verification_text(PATH, VERIFICATION)
    monkeypatch.setenv("COLUMNS", "80")
    narrow = terminal_text(verification_text(PATH, VERIFICATION))

    assert any(whole in line for line in wide.splitlines())
    assert max(map(len, narrow.splitlines())) <= 80
    assert whole in " ".join(narrow.split())


def test_an_error_fits_the_terminal_and_is_a_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The terminal broke it in mid-word."""
    error = CheckbackError(SAYS, remedy=REMEDY)
    monkeypatch.setenv("COLUMNS", "80")

    CommandOutput().error(error)
    assert capsys.readouterr().err == f"checkback: {SAYS} {REMEDY}\n"

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    CommandOutput().error(error)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines) == f"checkback: {SAYS} {REMEDY}"


def test_a_folder_that_is_no_checkpoint_is_told_without_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--files-only` asked for the brokers all the same, and then said "missing : ..."."""
    folder = str(tmp_path)

    assert execute(checkpoint.command, ["verify", "--files-only", "--checkpoint", folder]) == 1
    assert "missing: The folder is empty" in capsys.readouterr().out
    assert execute(checkpoint.command, ["verify", "--checkpoint", folder]) == 2
    assert "bootstrap_servers is not set" in capsys.readouterr().err


def test_findings_fit_the_terminal_with_the_remedy_below() -> None:
    found = [
        Diagnosis("java", Result.OK, "17"),
        Diagnosis(TOPIC, Result.FAILED, "missing " * 12, "Run `checkback topics create`."),
    ]

    lines = findings_text(found, 60).splitlines()

    assert lines[0] == "ok       java: 17"
    assert lines[-1] == "         Run `checkback topics create`."
    assert max(map(len, lines)) <= 60


def test_text_is_wrapped_for_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_columns() is None  # pytest captures the output
    assert terminal_text("word " * 40) == "word " * 40
    monkeypatch.setenv("COLUMNS", "72")
    assert terminal_columns() == 72
    assert terminal_text("a\n\nb") == "a\n\nb"


def test_a_row_wider_than_the_terminal_is_a_block_and_every_cell_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = table_text(HEADINGS, PENDING)
    assert len(wide.splitlines()) == 1 + len(PENDING), "without a terminal a row is a line"
    monkeypatch.setenv("COLUMNS", str(max(map(len, wide.splitlines()))))
    assert table_text(HEADINGS, PENDING) == wide
    monkeypatch.setenv("COLUMNS", "80")
    blocks = table_text(HEADINGS, PENDING).split("\n\n")

    for row, block in zip(PENDING, blocks, strict=True):
        shown = dict(line.rsplit("  ", 1) for line in block.splitlines())
        found = [(heading.strip(), cell.strip()) for heading, cell in shown.items()]
        assert found == [*zip(HEADINGS, map(str, row), strict=True)]


@pytest.mark.parametrize(
    ("is_filtered", "said"), [(False, "None yet."), (True, "Nothing matches.")]
)
def test_a_list_without_rows_is_a_sentence(is_filtered: bool, said: str) -> None:
    assert list_text(["id"], [], "None yet.", is_filtered=is_filtered) == said
    assert list_text(["id"], [["a"]], "None yet.", is_filtered=is_filtered) == "id\na"
