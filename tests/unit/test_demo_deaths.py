"""How the demo's order service dies: when all orders of a fatal batch are open, not before."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from checkback.demo import order_service
from checkback.demo.order_service import Deathbed, MortalSession


def test_a_fatal_batch_dies_once_each_of_its_orders_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deaths: list[int] = []
    monkeypatch.setattr(order_service, "die", lambda: deaths.append(1))
    deathbed = Deathbed(3)
    first = threading.Thread(target=deathbed.wait)
    first.start()
    deathbed.come()
    assert (first.is_alive(), deaths) == (True, [])

    deathbed.come()
    first.join(60)

    assert deaths == [1]


def test_a_direct_session_may_die_between_its_records_and_the_commit() -> None:
    calls: list[Any] = []

    class Producer:
        def flush(self, timeout_s: float) -> int:
            calls.append(timeout_s)
            return 2

        def commit_transaction(self) -> str:
            return "committed"

    session = MortalSession(Producer(), lambda: calls.append("may die"))

    assert session.flush(5.0) == 2
    assert session.commit_transaction() == "committed"
    assert calls == [5.0, "may die"]
