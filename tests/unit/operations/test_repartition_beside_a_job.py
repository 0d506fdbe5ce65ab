"""A repartition changes nothing where a job has made a batch, or has taken over, meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkback.operations.checkpoint import repartition
from checkback.operations.checkpoint.repartition import RepartitionPlan
from checkback.operations.checkpoint.verification import Verification
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, FencedError

FOUND = Verification(query_id="q", planned_batch=7, committed_batch=6)


class Store:
    """A checkpoint with an idle batch 7 that is planned; it refuses to be changed."""

    def __init__(self, **last: int) -> None:
        self.last = last

    def last_batch(self, log: str) -> int:
        return self.last[log]

    def delete(self, name: str) -> None:
        raise AssertionError(f"{name} is deleted")


@pytest.fixture(autouse=True)
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The looks before a repartition found a job that is stopped."""

    def none(*_: object) -> None: ...

    plan = RepartitionPlan(before=4, after=2, is_rewritten=False, dropped=7)
    for name in ("require_not_running", "require_stopped", "ledger_batch", "rewrite_state"):
        monkeypatch.setattr(repartition, name, none)
    monkeypatch.setattr(repartition, "_plan_of", lambda *_: (FOUND, plan))
    monkeypatch.setattr(repartition, "_grow_settled", lambda *_: 0)
    for name in ("marker_settings", "_fence_older"):
        monkeypatch.setattr(repartition, name, lambda *_: SimpleNamespace(query_id="q"))


def changed(store: Any) -> None:
    spark: Any = None
    repartition.repartition(Settings(checkpoint="c"), spark, store, 2)


def test_a_batch_that_was_committed_while_it_looked_is_not_dropped() -> None:
    with pytest.raises(CheckpointError, match="has just made a batch"):
        changed(Store(offsets=8, commits=7))


def test_a_job_that_starts_beside_it_keeps_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    class Younger:
        def __init__(self, _: object) -> None: ...

        def require_own(self) -> None:
            raise FencedError("A younger job took over.")

        def close(self) -> None: ...

    monkeypatch.setattr(repartition, "EpochWatch", Younger)
    with pytest.raises(FencedError):
        changed(Store(offsets=7, commits=6))
