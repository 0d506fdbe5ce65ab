"""The listener in docs/sending.md, which people copy, answers by what is committed."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from checkback.client import LocalTransactionState, Message, TransactionListener

README = Path(__file__).parents[2] / "README.md"
SENDING = Path(__file__).parents[2] / "docs" / "sending.md"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def listener_in_document() -> TransactionListener:
    """Make what the last Python block defines before it starts a producer."""
    (*_, code) = PYTHON.findall(SENDING.read_text("utf-8"))
    names: dict[str, Any] = {}
    exec(code.partition("\nwith TransactionMQProducer(")[0], names)  # noqa: S102 - our own text
    listener: TransactionListener = names["Orders"]()
    return listener


def test_a_reader_sees_the_client_on_the_first_screen_of_a_short_page() -> None:
    text = README.read_text("utf-8")

    assert len(text) <= 9_000
    assert "session=session" in "\n".join(text.splitlines()[:40])


def test_a_check_in_mid_transaction_does_not_see_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both used one connection, so the check said commit of what could still roll back."""
    monkeypatch.chdir(tmp_path)
    message: Any = Message("paid", b"42 EUR", keys="order-1", transaction_id="t-1")
    answers = []

    class Asked(sqlite3.Connection):
        """Is asked about the transaction right after its row is written."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            done = super().execute(sql, *values)
            if sql.startswith("INSERT"):
                answers.append(listener.check_local_transaction(message))
            return done

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: connect(*given, factory=Asked, **named)
    )
    listener = listener_in_document()

    assert listener.execute_local_transaction(message, None) is LocalTransactionState.COMMIT_MESSAGE
    assert answers == [LocalTransactionState.UNKNOW]
    assert listener.check_local_transaction(message) is LocalTransactionState.COMMIT_MESSAGE
