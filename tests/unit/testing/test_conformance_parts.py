"""Parts of the conformance kit: programs that die, local transactions, and reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from checkback.security import AccessControl
from checkback.testing.conformance.book import COMMIT, ROLLBACK, UNKNOWN, Book, Death, Script
from checkback.testing.conformance.program import (
    DiedError,
    PlannedSend,
    Program,
    SendFailedError,
)
from checkback.testing.conformance.report import (
    FailedError,
    NotSupportedError,
    Row,
    RowResult,
    as_json,
    as_text,
    require_equal,
)
from checkback.testing.conformance.stage import rules

ORDER = PlannedSend("paid", b"42")
SAYS = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    {answer}
    sys.stdout.flush()
"""


def program(tmp_path: Path, answer: str, book: Book | None = None) -> Program:
    command = [sys.executable, "-c", SAYS.format(answer=answer)]
    return Program(command, tmp_path / "err", (book or Book()).answer)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("print(json.dumps({'id': command['id'], 'failed': 'unsupported'}))", NotSupportedError),
        ("print(json.dumps({'id': command['id'], 'failed': 'invalid'}))", SendFailedError),
        ("sys.exit(1)", DiedError),
    ],
)
def test_what_a_program_says_is_understood(
    tmp_path: Path, answer: str, error: type[Exception]
) -> None:
    one = program(tmp_path, answer)
    try:
        for _ in range(2):  # also of a program that has ended before it is asked
            with pytest.raises(error):
                one.send(ORDER)
    finally:
        one.end()


def test_a_question_is_answered_by_the_book(tmp_path: Path) -> None:
    book = Book()
    asks = (
        "print(json.dumps({'id': 7, 'state': command['state'], 'transaction_id': 't',"
        " 'partition': 0, 'offset': 1} | {'id': 1} if command['do'] == 'answer' else"
        " {'ask': 'execute', 'id': 7, 'message': command | {'transaction_id': 't'}}))"
    )
    one = program(tmp_path, asks, book)
    try:
        book.plan(ORDER, Script(ROLLBACK))
        assert one.send(ORDER).state == ROLLBACK
    finally:
        one.end()


def question(what: str, transaction_id: str = "t") -> dict[str, object]:
    return {"ask": what, "message": {**ORDER.as_line(), "transaction_id": transaction_id}}


class Process(Program):
    """Counts kills; there is no process."""

    def __init__(self) -> None:
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1


@pytest.mark.parametrize(
    ("script", "asked", "said", "kills"),
    [
        (Script(COMMIT), ["execute", "check"], [COMMIT, COMMIT], 0),
        (Script(COMMIT, said=UNKNOWN), ["execute", "check"], [UNKNOWN, COMMIT], 0),
        (Script(COMMIT, said=UNKNOWN, unknown_checks=1), ["execute", "check", "check"],
         [UNKNOWN, UNKNOWN, COMMIT], 0),
        (Script(UNKNOWN), ["execute", "check", "check"], [UNKNOWN, UNKNOWN, UNKNOWN], 0),
        (Script(COMMIT, death=Death.BEFORE_OP), ["execute", "check"], [None, COMMIT], 1),
        (Script(COMMIT, death=Death.AFTER_HALF), ["execute", "check"], [None, ROLLBACK], 1),
        # A check that came first has put a barrier.
        (Script(COMMIT), ["check", "execute"], [ROLLBACK, ROLLBACK], 0),
    ],
)  # fmt: skip
def test_a_local_transaction_has_one_end(
    script: Script, asked: list[str], said: list[str | None], kills: int
) -> None:
    book, process = Book(), Process()
    book.plan(ORDER, script)

    assert [book.answer(process, question(one)) for one in asked] == said
    assert process.kills == kills


def test_a_report_says_what_failed() -> None:
    rows = [
        Row("plain", "A row.", RowResult.HELD, "", 1.0),
        Row("plain", "Another row.", RowResult.FAILED, "it is 1, expected 2", 0.1),
    ]

    assert as_text(rows).splitlines()[1] == "plain      Another row. failed  it is 1, expected 2"
    assert as_text(rows).splitlines()[2] == "1 held, 1 failed, 0 not supported"
    assert '"verdict": "failed"' in as_json(rows)
    with pytest.raises(FailedError, match="it is 1, expected 2"):
        require_equal(1, 2, "it")


def test_the_rules_of_the_guarded_stage_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(rules())

    AccessControl.from_file(file)  # raises, if it can't
