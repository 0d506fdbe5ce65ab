"""What commands tell people fits the terminal, and no name in it is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operations.records import discarded as discarded_record
from tests.unit.operations.records import half

from checkback.commands import checkpoint, discarded
from checkback.commands.acl import command, decision_text
from checkback.commands.checkpoint import inspection_text, verification_text
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
from checkback.commands.tx import history_text
from checkback.operations.checkpoint.verification import Problem, Verification
from checkback.operations.doctor.judgements import Diagnosis, Result
from checkback.operations.parked.discarded import DiscardedHalf
from checkback.operations.parked.resume import Resumed, Resumption
from checkback.operations.rebuild.rebuild import Rebuild, RebuildReport
from checkback.operations.topics.position import Position
from checkback.operations.transactions.history import HistoryEvent, TransactionHistory
from checkback.protocol.errors import CheckbackError
from checkback.security.decision import AccessDecision, DecisionStep, StepOutcome

TOPIC = "production-RMQ_SYS_TRANS_HALF_TOPIC"
FILE = "state/0/12/1234567_0123456789abcdef-0123456789abcdef.changelog"
SAYS = "The file is shorter than its checksum says, so that nobody can tell what it held."
REMEDY = "Run checkback checkpoint rebuild; it moves the damaged folder aside."


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def narrow_lines(monkeypatch: pytest.MonkeyPatch, text: Callable[[], str]) -> list[str]:
    """Return the lines of a text on a terminal of 80 columns."""
    with monkeypatch.context() as narrow:
        narrow.setenv("COLUMNS", "80")
        return text().splitlines()


def inspection() -> dict[str, Any]:
    position = {"topic": TOPIC, "partition": 3, "committed": 1_234_567_890,
                "planned": 1_234_567_990, "end": 1_234_569_990, "lag": 2_000}  # fmt: skip
    state = {"state_partition": 11, "pages": 123_456, "page_bytes": 9_876_543_210,
             "file_bytes": 9_876_543_210,
             "pending": 98_765_432, "next_batch": 1_234_567}  # fmt: skip
    return {
        "application_id": "orders-and-payments-pipeline-of-the-production-cluster-in-two-regions",
        "query_id": "6a5b0000-0000-4000-8000-000000000000",
        "planned_batch": 8, "committed_batch": None, "committed_at_ms": None, "lag": 2_000,
        "pending": 5, "oldest_pending_ms": 6_000, "page_size": 1_000,
        "positions": [position, position], "state": [state, state],
        "problems": [{"code": "torn", "file": FILE, "says": SAYS, "remedy": REMEDY}] * 2,
    }  # fmt: skip


def verification() -> Verification:
    problem = Problem("torn", FILE, SAYS, REMEDY)
    return Verification(markers={0: 5, 1: 6}, problems=(problem, problem), is_running=True)


def decision() -> AccessDecision:
    return AccessDecision(
        (
            DecisionStep("access key", StepOutcome.NEXT, "There is an account."),
            DecisionStep(
                f"topic {TOPIC}",
                StepOutcome.DENIED,
                f"It needs SUB and has PUB for '{TOPIC}'. " * 2,
            ),
        )
    )


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


def test_what_a_checkpoint_holds_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = narrow_lines(monkeypatch, lambda: inspection_text(inspection()))

    assert max(map(len, lines)) <= 80
    assert lines.count(f"torn {FILE}: The file is") == 2
    assert sum(TOPIC in line for line in lines) == 2


def test_without_a_terminal_a_checkpoint_has_a_line_for_each_row_and_problem() -> None:
    lines = inspection_text(inspection()).splitlines()

    assert lines.count(f"torn {FILE}: {SAYS} {REMEDY}") == 2
    assert sum(line.startswith(TOPIC) and line.endswith("2000") for line in lines) == 2
    assert lines[0].startswith("application           orders-and-payments")


def test_what_is_wrong_with_a_checkpoint_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "s3a://orders-and-payments/production/checkpoints/of-the-pipeline-in-eu-central"
    narrow = narrow_lines(monkeypatch, lambda: verification_text(path, verification()))
    wide = verification_text(path, verification()).splitlines()

    assert max(map(len, narrow)) <= 80
    assert narrow[:2] == [f"{path}:", "  not whole, its pipeline runs"]
    assert wide[0] == f"{path}: not whole, its pipeline runs"
    assert wide[-1] == f"torn {FILE}: {SAYS} {REMEDY}"
    assert " ".join(" ".join(narrow).split()) == " ".join(" ".join(wide).split())


def test_a_folder_that_is_no_checkpoint_is_told_without_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--files-only` asked for the brokers all the same, and then said "missing : ..."."""
    folder = str(tmp_path)

    assert execute(checkpoint.command, ["verify", "--files-only", "--checkpoint", folder]) == 1
    assert "missing: The folder is empty" in capsys.readouterr().out
    assert execute(checkpoint.command, ["verify", "--checkpoint", folder]) == 2
    assert "bootstrap_servers is not set" in capsys.readouterr().err


def test_an_explained_decision_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = narrow_lines(monkeypatch, lambda: decision_text(decision(), "right"))
    wide = decision_text(decision(), "right").splitlines()

    assert max(map(len, narrow)) <= 80
    assert len(wide) == 4
    assert "There is an account." in wide[1]


def test_mistakes_in_rules_fit_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "plain_acl.yml"
    file.write_text("accounts:\n- accessKey: orders\n  secretKey: 12345\n", "utf-8")

    execute(command, ["lint", str(file)])
    lines = capsys.readouterr().out.splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[1:3] == [
        "mistake in line 3: The secret has 5 characters. It needs 7 or more; 32 random",
        "  ones are safe.",
    ]


def test_empty_lines_stay_where_others_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert narrow_lines(monkeypatch, lambda: terminal_text("a\n\nb")) == ["a", "", "b"]


PATH = "s3a://orders-and-payments/production/checkpoints/of-the-pipeline-in-eu-central"


def rebuilt(*_: object) -> RebuildReport:
    problem = {"file": FILE, "says": SAYS}
    return RebuildReport(
        "from topics",
        True,
        PATH,
        (problem,),
        ended_queries=("6a5b0000-0000-4000-8000-000000000000",) * 3,
    )


def test_what_a_rebuild_would_do_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(Rebuild, "run", rebuilt)
    monkeypatch.setattr(checkpoint, "find_java", lambda: None)
    monkeypatch.setattr(checkpoint, "pipeline_jars", lambda _: [])

    execute(checkpoint.rebuild, [])
    lines = capsys.readouterr().out.splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[-1] == "Nothing was changed. Run again with --yes to do it."
    assert lines[0].startswith(f"wrong: {FILE}: ")


def test_what_would_be_resumed_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    of = half(
        "payments-service-0000000000000042", group="payments-of-a-long-name", at=Position(1, 7)
    )
    given_up = DiscardedHalf(discarded_record(of, at=Position(0, 4)))

    planned = Resumption((Resumed(given_up),), ())
    discarded._tell(CommandOutput(False), planned, is_certain=False)

    assert capsys.readouterr().out.splitlines() == [
        "0:4 (payments-service-0000000000000042, group payments-of-a-long-name): would be",
        "  resumed",
        "Run again with --yes to do it.",
    ]


def test_sentences_stay_whole_where_a_program_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)

    assert terminal_text("word " * 40) == "word " * 40


def test_findings_fit_the_terminal_with_the_remedy_below() -> None:
    topic = "topic RMQ_SYS_TRANS_HALF_TOPIC"
    found = [
        Diagnosis("java", Result.OK, "17"),
        Diagnosis(topic, Result.FAILED, "missing " * 12, "Run `checkback topics create`."),
    ]

    lines = findings_text(found, 60).splitlines()

    assert lines[0] == "ok       java: 17"
    assert lines[1].startswith(f"failed   {topic}: missing")
    assert lines[-1] == "         Run `checkback topics create`."
    assert max(map(len, lines)) <= 60


PENDING = [
    ("7F0000010A2B18B4AAC217BE0001000" + str(one), "orders-service", "paid-orders-of-today",
     "0:1234567", "2m47s", 0, "7m12s")
    for one in range(3)
]  # fmt: skip


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
