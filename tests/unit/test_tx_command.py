"""``checkback tx resolve`` speaks where its progress bar stood."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from checkback.commands import tx
from checkback.commands.shared.app import execute
from checkback.commands.shared.output import CommandOutput
from checkback.operations.topics.position import Position
from checkback.operations.transactions import resolve as resolving
from checkback.operations.transactions.history import TransactionHistory
from checkback.protocol.properties import TRANSACTION_COMMIT_TYPE as COMMIT
from checkback.protocol.records import Op

GIVEN = (
    "resolve", "id", "--commit", "--why", "it was paid", "--operator", "ann",
    "--bootstrap-servers", "127.0.0.1:1",
)  # fmt: skip


def test_both_verdicts_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The last one was taken."""
    assert execute(tx.command, [*GIVEN, "--rollback"]) == 2
    assert "Give --commit or --rollback, one of them." in capsys.readouterr().err


@pytest.mark.parametrize("verdict", ["pending", "rollback"])
def test_the_outcome_is_told_after_the_progress_bar_is_gone(
    verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Finder:
        def find(self, *_: Any, **__: Any) -> list[TransactionHistory]:
            return [TransactionHistory(Position(1, 7), "id", "g", "paid", verdict, "", ())]

    def pending(found: list[TransactionHistory]) -> TransactionHistory | None:
        return found[0] if verdict == "pending" else None

    @contextmanager
    def finder(*_: Any) -> Iterator[Finder]:
        yield Finder()
        steps.append("the bar is gone")

    monkeypatch.setattr(tx, "open_finder", finder)
    monkeypatch.setattr(resolving, "pending_one", pending)
    monkeypatch.setattr(resolving, "manual_op", lambda *_, **__: Op(1, 7, "g", "id", COMMIT))
    monkeypatch.setattr(CommandOutput, "show", lambda *_: steps.append("told"))

    CliRunner().invoke(tx.command, GIVEN)

    assert steps == ["the bar is gone", "told"]
