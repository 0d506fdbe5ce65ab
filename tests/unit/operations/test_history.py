"""A history is assembled from records in any order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tests.unit.operations.records import NAMES, discarded, half, record

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import (
    HistoryEvent,
    assemble,
    check_event,
    discarded_event,
    final_event,
    half_position,
    mark_event,
    op_event,
    refused_event,
)
from checkback.protocol import properties as names
from checkback.protocol import records
from checkback.protocol.records import Op
from checkback.protocol.refusals import RefusedReason, refused_headers
from checkback.state import Action, Counter, Outcome, mark_key, pack_settled

AT = Position(1, 7)


def mark_record(*rows: tuple[Action, int, int], now_ms: int = 5_000, partition: int = 1) -> bytes:
    """Settled marks of (action, half offset, check times)."""
    action, offset, detail = (np.array(column) for column in zip(*rows, strict=True))
    return pack_settled(
        Outcome(
            partition, 0, now_ms, action.astype(np.uint8), offset.astype(np.int64),
            detail.astype(np.int32), offset.astype(np.int64),
            np.zeros(len(Counter), np.int64), 0, -1,
        ),
        batch_id=3,
    )  # fmt: skip


def settled(
    *rows: tuple[Action, int, int], partition: int = 1, now_ms: int = 5_000
) -> HistoryEvent | None:
    blob = mark_record(*rows, partition=partition, now_ms=now_ms)
    return mark_event(record(NAMES.settled, [], value=blob, key=mark_key(partition, 0)), AT)


def op_record(state: int, *, operator: str = "", time_ms: int = 2_000) -> FoundRecord:
    op = Op(1, 7, "g", "u", state, remark="why", operator=operator)
    return record(NAMES.op, op.headers(), time_ms=time_ms, value=op.value())


def test_without_a_verdict_it_is_pending() -> None:
    history = assemble(AT, half(at=AT), [])

    assert (history.verdict, history.transaction_id, history.group) == ("pending", "u", "g")
    assert [event.kind for event in history.events] == ["half"]
    assert history.events[0].facts["properties"]["a"] == "b"


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


def test_an_op_tells_whether_a_person_wrote_it() -> None:
    producers, persons = op_event(op_record(12)), op_event(op_record(8, operator="ann"))

    assert (producers.facts["says"], producers.facts["manual"]) == ("rollback", False)
    assert (persons.facts["says"], persons.facts["manual"]) == ("commit", True)
    assert (persons.facts["operator"], persons.facts["remark"]) == ("ann", "why")


@pytest.mark.parametrize("times", [b"9" * 5_000, b"9" * 20, "٣".encode(), b"-1", b""])
def test_what_poses_as_feedback_of_the_sink_breaks_no_history(times: bytes) -> None:
    """Whoever may write ops could keep operators from a transaction: Python reads 4,300 digits."""
    headers = [(names.TAGS, b"u"), (names.TRANSACTION_CHECK_TIMES, times)]

    event = op_event(record(NAMES.op, headers, value=b"7"))

    assert event.facts["check_times"] == -1


def test_the_sinks_feedback_is_no_op() -> None:
    event = op_event(record(NAMES.op, records.undelivered_check_headers(2), value=b"7"))

    assert (event.kind, event.facts["check_times"]) == ("check undelivered", 2)


def test_a_discarded_half_and_the_note_of_its_resumption_are_told_apart() -> None:
    given_up = discarded(half(at=AT), at=Position(0, 4))
    facts = records.OperatorFacts("ann", "r", 1)
    note = records.note_headers(given_up.headers, names.RESUME, "0:4", "1:9", facts)

    told = discarded_event(given_up), discarded_event(record(NAMES.discarded, note))

    assert [event.kind for event in told] == ["discarded", "resumed"]
    assert told[0].facts == {"reason": "check limit", "check_times": 3}
    assert told[1].facts["resumed_to"] == "1:9"
    assert half_position(given_up) == AT


def test_a_refusal_tells_reason_and_origin() -> None:
    headers = refused_headers([], RefusedReason.COMMIT_AFTER_ROLLBACK, NAMES.op, 1, 22)

    facts = refused_event(record(NAMES.refused, headers)).facts

    assert facts["reason"] == "COMMIT_AFTER_ROLLBACK"
    assert (facts["origin_topic"], facts["origin_partition"], facts["origin_offset"]) == (
        NAMES.op, 1, 22,
    )  # fmt: skip


def test_a_half_that_is_gone_leaves_what_the_marks_say() -> None:
    verdict = settled((Action.ROLLBACK, 7, 0))
    assert verdict is not None

    history = assemble(AT, None, [verdict])

    assert (history.verdict, history.transaction_id) == ("rollback", "")
