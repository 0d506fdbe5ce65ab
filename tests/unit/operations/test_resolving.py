"""The transaction of a manual verdict, and what became of it."""

from __future__ import annotations

import pytest
from tests.deciding import page_outcome
from tests.unit.operations.records import NAMES, half, record

from checkback.operations.topics.position import Position
from checkback.operations.topics.scanner import FoundRecord
from checkback.operations.transactions.history import TransactionHistory, assemble
from checkback.operations.transactions.resolve import OpOutcome, manual_op, pending_one
from checkback.protocol import records
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.refusals import RefusedReason, refused_headers
from checkback.state import Action, mark_key, pack_settled

AT, OP_AT = Position(1, 7), Position(1, 30)


def pending(at: Position = AT, *, is_gone: bool = False) -> TransactionHistory:
    return assemble(at, None if is_gone else half(at=at), [])


def mark(action: Action) -> FoundRecord:
    outcome = page_outcome(AT.partition, (action, AT.offset, 0, AT.offset))
    return record(NAMES.settled, [], value=pack_settled(outcome, 3), key=mark_key(AT.partition, 0))


def refused(topic: str, at: Position, reason: RefusedReason) -> FoundRecord:
    return record(NAMES.refused, refused_headers([], reason, topic, at.partition, at.offset))


def final() -> FoundRecord:
    return record("orders", records.final_parts(half(at=AT).headers, *AT).headers)


def test_the_one_that_waits_is_meant() -> None:
    assert pending_one([pending()]) is not None
    assert pending_one([]) is None


def test_several_that_wait_must_be_named_by_position() -> None:
    with pytest.raises(UsageError) as error:
        pending_one([pending(), pending(Position(0, 3))])

    assert error.value.fields["positions"] == ["1:7", "0:3"]


def test_nobody_can_decide_a_half_that_is_not_there() -> None:
    with pytest.raises(NotFoundError):
        pending_one([pending(is_gone=True)])


def test_a_manual_op_is_a_producers_with_who_and_why() -> None:
    op = manual_op(pending(), "rollback", operator="ann", reason="seen in the books")

    assert (op.half_partition, op.half_offset) == AT
    assert (op.producer_group, op.transaction_id, op.state) == ("g", "u", 12)
    assert (op.operator, op.remark) == ("ann", "seen in the books")
    assert not op.from_transaction_check


@pytest.mark.parametrize(
    ("seen", "verdict", "is_complete"),
    [
        ([], "pending", False),
        ([mark(Action.CHECK)], "pending", False),
        ([mark(Action.ROLLBACK)], "rollback", True),
        ([mark(Action.COMMIT)], "commit", False),
        ([mark(Action.COMMIT), final()], "commit", True),
        ([final(), mark(Action.COMMIT)], "commit", True),
        ([mark(Action.DELIVERED)], "commit", True),
        ([refused(NAMES.op, OP_AT, RefusedReason.COMMIT_AFTER_ROLLBACK)], "pending", True),
        ([refused(NAMES.op, Position(1, 29), RefusedReason.OP_GROUP_WRONG)], "pending", False),
        (
            [mark(Action.COMMIT), refused(NAMES.half, AT, RefusedReason.REAL_TOPIC_MISSING)],
            "commit",
            True,
        ),
    ],
)
def test_what_follows_is_known_when_verdict_and_message_are(
    seen: list[FoundRecord], verdict: str, is_complete: bool
) -> None:
    outcome = OpOutcome(NAMES, AT, OP_AT)

    for one in seen:
        outcome.take(one)

    assert (outcome.verdict, outcome.is_complete) == (verdict, is_complete)
