"""A history is assembled from records in any order."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from tests.deciding import page_outcome
from tests.unit.operations.records import NAMES, half, record

from checkback.commands.tx import history_text
from checkback.console.words import timeline
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import (
    HistoryEvent,
    assemble,
    check_event,
    final_event,
    mark_event,
    op_event,
)
from checkback.protocol import properties as names
from checkback.protocol import records
from checkback.protocol.records import Op
from checkback.state import Action, mark_key, pack_settled
from checkback.state.formats.identity import identity_words

AT = Position(1, 7)
REST = identity_words(b"g", b"u")[1]


def mark_record(*rows: tuple[Action, int, int], now_ms: int = 5_000, partition: int = 1) -> bytes:
    """Settled marks of (action, half offset, check times)."""
    decided = [(action, offset, detail, offset) for action, offset, detail in rows]
    outcome = page_outcome(partition, *decided, now_ms=now_ms)
    return pack_settled(replace(outcome, identity_rest=np.full(len(rows), REST)), batch_id=3)


def settled(
    *rows: tuple[Action, int, int], partition: int = 1, now_ms: int = 5_000
) -> HistoryEvent | None:
    blob = mark_record(*rows, partition=partition, now_ms=now_ms)
    return mark_event(record(NAMES.settled, [], value=blob, key=mark_key(partition, 0)), AT)


def op_record(state: int, *, operator: str = "", time_ms: int = 2_000) -> FoundRecord:
    op = Op(1, 7, "g", "u", state, remark="why", operator=operator)
    return record(NAMES.op, op.headers(), time_ms=time_ms, value=op.value())


def test_events_are_told_in_the_order_of_time_however_they_were_found() -> None:
    final_headers = records.final_parts(half(at=AT).headers, *AT).headers
    verdict = settled((Action.COMMIT, 7, 0))
    assert verdict is not None
    asked = settled((Action.CHECK, 7, 1), now_ms=3_000)
    assert asked is not None
    events = [
        op_event(op_record(8, time_ms=4_000)),
        check_event(record(NAMES.check("g"), records.check_headers([], *AT, 1), time_ms=3_001)),
        asked,
        verdict,
        final_event(record("orders", final_headers, time_ms=1_000)),
    ]

    for shuffled in permutations(events):
        history = assemble(AT, half(at=AT), shuffled)

        told = [event.kind for event in history.events]
        assert told == ["half", "mark", "check request", "op", "mark", "final"]
        assert history.verdict == "commit"


def test_a_mark_of_a_half_that_kafka_lost_says_nothing_of_the_one_at_its_offset() -> None:
    blob = mark_record((Action.COMMIT, 7, 0))
    found = record(NAMES.settled, [], value=blob, key=mark_key(1, 0))
    another = record(NAMES.half, [("PGROUP", b"g"), ("UNIQ_KEY", b"v")])

    assert mark_event(found, AT, another) is None
    assert mark_event(found, AT, half(at=AT)) == mark_event(found, AT)


@pytest.mark.parametrize(
    ("action", "by"),
    [(Action.DELIVERED, "relay"), (Action.COMMIT, "job"), (Action.ROLLBACK, "")],
)
def test_a_history_says_which_way_a_final_message_went(action: Action, by: str) -> None:
    mark = settled((action, 7, 0))
    assert mark is not None
    history = assemble(AT, half(at=AT), [mark])

    assert history.delivered_by == by
    verdict = "rollback" if action is Action.ROLLBACK else "commit"
    way = f", delivered by the {by}" if by else ""
    assert history_text(history).splitlines()[0].endswith(f"verdict {verdict}{way}")
    title = timeline(history)[-1].title
    assert title == f"Verdict: {verdict}{', delivered by a relay' * (by == 'relay')} (batch 3)"


def test_a_mark_of_another_half_says_nothing() -> None:
    assert settled((Action.COMMIT, 8, 0)) is None
    assert settled((Action.COMMIT, 7, 0), partition=0) is None


@pytest.mark.parametrize(
    ("action", "verdict"),
    [
        (Action.COMMIT, "commit"),
        (Action.ROLLBACK, "rollback"),
        (Action.DISCARD_CHECK_LIMIT, "discard"),
        (Action.DISCARD_EXPIRED, "discard"),
        (Action.REFUSE_HALF, "refused"),
        (Action.CHECK, ""),
    ],
)
def test_a_mark_tells_the_verdict(action: Action, verdict: str) -> None:
    event = settled((action, 7, 2), (Action.COMMIT, 9, 0))

    assert event is not None
    assert event.facts["verdict"] == verdict
    assert event.facts["batch_id"] == 3


@pytest.mark.parametrize("times", [b"9" * 5_000, b"9" * 20, "٣".encode(), b"-1", b""])
def test_what_poses_as_feedback_of_the_sink_breaks_no_history(times: bytes) -> None:
    """Whoever may write ops could keep operators from a transaction: Python reads 4,300 digits."""
    headers = [(names.TAGS, b"u"), (names.TRANSACTION_CHECK_TIMES, times)]

    event = op_event(record(NAMES.op, headers, value=b"7"))

    assert event.facts["check_times"] == -1
