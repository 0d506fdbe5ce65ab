"""Choosing refused records, and what can be sent again."""

from __future__ import annotations

import pytest
from tests.unit.operations.records import NAMES, half, record

from checkback.operations.parked.refused import RefusedRecord, refused_records
from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import refused_event
from checkback.protocol.properties import Headers
from checkback.protocol.refusals import RefusedReason, refusal_facts, refused_headers

MISSING = RefusedReason.REAL_TOPIC_MISSING
FOURTH = Position(0, 4)


def refused(
    reason: RefusedReason = MISSING,
    *,
    at: Position = FOURTH,
    origin: tuple[str, int, int] = (NAMES.half, 1, 7),
    brought: Headers | None = None,
) -> FoundRecord:
    given = half("u", at=Position(1, 7)).headers + (brought or [])
    return record(NAMES.refused, refused_headers(given, reason, *origin), at=at)


def only(found: FoundRecord) -> RefusedRecord:
    [one] = refused_records([found])
    return one


def test_of_names_of_megabytes_lists_have_the_beginning() -> None:
    long = half("u" * 3_000_000, group="g" * 3_000_000, topic="t" * 3_000_000, at=Position(1, 7))
    reason = RefusedReason.HALF_NAME_TOO_LONG
    found = only(record(NAMES.refused, refused_headers(long.headers, reason, NAMES.half, 1, 7)))

    assert (found.transaction_id, found.group, found.real_topic) == (
        "u" * 1_024, "g" * 1_024, "t" * 1_024,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (refused(), ""),
        (refused(RefusedReason.FINAL_TOO_LARGE), ""),
        (refused(RefusedReason.OP_WITHOUT_HALF, origin=(NAMES.op, 1, 7)), "no half message"),
        (refused(RefusedReason.TRANSACTIONS_REJECTED), "does not say that it was committed"),
        (refused(RefusedReason.NOT_A_HALF), "does not say that it was committed"),
        (refused(RefusedReason.RECORD_NOT_MADE), ""),
        (refused(RefusedReason.REAL_TOPIC_UNAVAILABLE), ""),
        (refused(RefusedReason.DISCARD_REJECTED), "does not say that it was committed"),
        (record(NAMES.refused, []), "not known"),
    ],
)
def test_only_finals_that_were_committed_can_be_sent(found: FoundRecord, says: str) -> None:
    obstacle = only(found).obstacle(NAMES.half)

    assert says in obstacle
    assert bool(obstacle) is bool(says)


def test_a_half_can_not_say_itself_why_it_was_refused() -> None:
    brought = [
        ("__checkback.errors.reason", b"REAL_TOPIC_MISSING"),
        ("__checkback.errors.topic", NAMES.half.encode()),
        ("__checkback.resend.to", b"orders:0:3"),
        ("__checkback.resend.from", b"0:5"),
    ]
    hostile = refused(RefusedReason.NOT_A_HALF, origin=(NAMES.half, 3, 8), brought=brought)
    healthy = refused(at=Position(0, 5))

    found = refused_records([hostile, healthy])

    assert [one.reason for one in found] == ["NOT_A_HALF", "REAL_TOPIC_MISSING"]
    assert [one.resent_to for one in found] == ["", ""]
    assert found[0].origin == (NAMES.half, 3, 8)
    assert refused_event(hostile).facts["reason"] == "NOT_A_HALF"
    assert refusal_facts(hostile.headers).original[-4:] == brought
