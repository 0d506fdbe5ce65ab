"""The pieces of code in docs/sending.md, and README's first, do what their page says."""

from __future__ import annotations

import re
import sqlite3
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from checkback.client import Producer
from checkback.testing import FakeCheckService

ROOT = Path(__file__).parents[3]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PIECES = PYTHON.findall((ROOT / "docs" / "sending.md").read_text("utf-8"))
README = PYTHON.findall((ROOT / "README.md").read_text("utf-8"))[0]


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def piece(words: str) -> str:
    [found] = [one for one in PIECES if words in one]
    return str(found)


def charge(order: str, transaction_id: str) -> None:
    assert (order, len(transaction_id)) == ("order-1", 32)


@pytest.mark.parametrize(
    ("code", "bodies"),
    [
        pytest.param(README, [b'{"order":1,"amount":42}', b"an order was paid"], id="README"),
        pytest.param(piece("database=engine"), [b'{"order":1}'], id="session"),
        pytest.param(piece("database=connect)"), [b"42 EUR"], id="plain connection"),
        pytest.param(piece("check="), [b"42 EUR"], id="no database"),
        pytest.param(piece("async def lifespan"), [], id="lifespan"),
    ],
)
def test_a_piece_of_code(
    code: str, bodies: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    services: list[FakeCheckService] = []

    def producer(*given: Any, **named: Any) -> Producer:
        made = Producer(*given, **named)
        services.append(FakeCheckService(made))
        if "database" in named and "create_table" not in code:
            made_for = Producer("tables", bootstrap_servers="none", database=engine)
            made_for.create_table()
        return made

    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    Base.metadata.create_all(engine)
    names: dict[str, Any] = {
        "__name__": "piece",
        "Producer": producer,
        "Session": Session,
        "asynccontextmanager": asynccontextmanager,
        "charge": charge,
        "connect": lambda: sqlite3.connect("orders.db"),
        "connection": sqlite3.connect("orders.db"),
        "engine": engine,
        "order": Order(),
        "was_charged": lambda _: True,
    }
    code = code.replace("from checkback.client import Producer\n", "")
    exec(compile(code, "piece", "exec", dont_inherit=True), names)  # noqa: S102 - our own text
    assert [message.body for one in services for message in one.finals] == bodies
    engine.dispose()
