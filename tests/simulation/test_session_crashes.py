"""Crashes at every await of a session's send, flush, commit and op; see session_world.

`python -m tests.simulation.session_world SEED` repeats a life; `--crashes N` goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

import pytest
from tests.simulation.session_world import lives

from checkback.client.listener import LocalTransactionState
from checkback.client.sending.half import Half
from checkback.client.sessions import dbapi, sqlalchemy
from checkback.client.sessions.joined import Joined
from checkback.client.sessions.log_table import BARRIER, TransactionLog
from checkback.client.sessions.sent import SentMessage

AWAITS: Final = {
    "start", "before it connects", "before the half is sent", "after the half was sent",
    "while the half is waited for", "before SQL", "after SQL", "before the commit",
    "after the commit", "before the op is sent", "after the op was sent",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def silence() -> Iterator[None]:
    """Log nothing of so much misfortune."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("number", range(2))
def test_all_or_none_over_a_thousand_crashes(number: int) -> None:
    worlds = list(lives(number * 10_000, 500))
    assert {place for world in worlds for place in world.crashed_at} == AWAITS
    assert sum(world.delivered for world in worlds) > 500


def seal_without_waiting(joined: Joined, execute: Any, paramstyle: str = "", _: Any = None) -> None:
    for owner, sent in joined._live():
        assert owner.log is not None
        owner.log.write(execute, [sent.transaction_id], paramstyle=paramstyle)


MUTATIONS: Final[dict[str, tuple[Any, str, Any]]] = {
    "no wait for the halves": (Joined, "seal", seal_without_waiting),
    "no rows": (TransactionLog, "write", lambda *_, **__: None),
    "no barrier": (TransactionLog, "_put_barrier", lambda *_: BARRIER),
    "a savepoint that keeps its messages": (Joined, "rollback_to", Joined.release),
    "a lost commit taken for a rollback, SQLAlchemy": (
        sqlalchemy, "UNKNOWN", LocalTransactionState.ROLLBACK_MESSAGE,
    ),
    "a lost commit taken for a rollback, DB-API": (
        dbapi, "UNKNOWN", LocalTransactionState.ROLLBACK_MESSAGE,
    ),
    "another try under the same id": (Half, "rename", lambda _: None),
    "a commit of what is rolled back": (
        SentMessage, "end", lambda sent, *_: END(sent, LocalTransactionState.COMMIT_MESSAGE),
    ),
}  # fmt: skip
END: Final[Callable[..., None]] = SentMessage.end


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_left_out_is_missed(name: str) -> None:
    owner, attribute, instead = MUTATIONS[name]
    with patch.object(owner, attribute, instead), pytest.raises(AssertionError):
        for _ in lives(0, 1_000):
            pass
