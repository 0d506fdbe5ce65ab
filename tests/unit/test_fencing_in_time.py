"""Fencing holds a batch up for seconds, however many sessions the halves of a group name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.direct import direct_transactional_id
from checkback.protocol.errors import BrokerError
from checkback.protocol.records import half_headers
from checkback.sinks.kafka import sessions
from checkback.sinks.kafka.lookup import RecordReader
from checkback.sinks.kafka.sessions import BATCH_S, SessionFencer
from checkback.sinks.kafka.settings import SinkSettings
from checkback.sinks.plan import Lookup
from checkback.state import Action

HALVES = 1_000
FENCE_TAKES_S = 0.25
LOOKUP = Lookup(
    0,
    np.arange(HALVES),
    np.full(HALVES, Action.FENCE, np.uint8),
    np.zeros(HALVES, np.int32),
    np.zeros((HALVES, 2), np.int64),
)


class Halves:
    """Reads halves of which each names a session of its own, and counts them."""

    topic = "half"

    def __init__(self) -> None:
        self.read_count = 0

    def read(self, _: int, offsets: Any) -> Iterator[tuple[int, Any]]:
        for offset in offsets.tolist():
            self.read_count += 1
            session = direct_transactional_id("", "g", f"{offset:032x}")
            headers = half_headers(
                producer_group="g",
                transaction_id="u",
                real_topic="orders",
                properties={},
                direct_id=session,
            )
            yield offset, SimpleNamespace(headers=lambda headers=headers: headers)

    def rest(self) -> None:
        pass


def test_sessions_without_number_hold_a_batch_up_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 100.0
    fenced: list[str] = []

    def fence(_: Any, _topic: str, session: str, timeout_s: float) -> None:
        nonlocal now_s
        assert timeout_s > 0
        fenced.append(session)
        now_s += FENCE_TAKES_S

    monkeypatch.setattr(sessions, "fence_session", fence)
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: now_s))
    fencer, halves = SessionFencer(SinkSettings(Settings(), "q", {}, 1_000)), Halves()
    monkeypatch.setattr(fencer, "_halves", halves)

    done = fencer.fence([LOOKUP, LOOKUP])

    most = int(BATCH_S / FENCE_TAKES_S)
    assert len(done) == len(set(fenced)) == most
    assert halves.read_count == most + 1
    assert now_s <= 100.0 + BATCH_S


@pytest.mark.parametrize("fails", [False, True])
def test_after_fencing_nobody_reads_the_half_topic_on(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """A consumer that keeps its partition asks the brokers two hundred times a second."""

    def read(_: RecordReader, *__: object) -> Iterator[tuple[int, Any]]:
        if fails:
            raise BrokerError("Silence.", remedy="Wait.")
        return iter([(offset, None) for offset in range(HALVES)])

    rests: list[RecordReader] = []
    monkeypatch.setattr(RecordReader, "read", read)
    monkeypatch.setattr(RecordReader, "rest", lambda reader: rests.append(reader))
    fencer = SessionFencer(SinkSettings(Settings(), "q", {}, 1_000))

    with pytest.raises(BrokerError) if fails else nullcontext():
        fencer.fence([LOOKUP])

    assert len(rests) == 1
