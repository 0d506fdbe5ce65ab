"""The page engine in memory decides as the pipeline does; its clock is the test's."""

from __future__ import annotations

import pytest

from checkback.protocol.configuration import Settings
from checkback.protocol.errors import NotFoundError, UsageError
from checkback.protocol.refusals import RefusedReason
from checkback.testing.page_engine import BatchOutcome, PageEngine

COMMIT, ROLLBACK = 8, 12


def test_ops_of_the_same_batch_settle_their_halves() -> None:
    engine = PageEngine()
    engine.send_half("a")
    engine.send_half("b")
    engine.send_op("a", COMMIT)
    engine.send_op("b", ROLLBACK)

    assert engine.run_batch() == BatchOutcome(finals=("a",), rolled_back=("b",))
    assert engine.pending == 0


def test_an_own_immunity_time_wins_over_the_settings() -> None:
    engine = PageEngine(Settings(transaction_timeout_ms=1_000))
    engine.send_half("a", immunity_s=10)

    assert engine.advance(10_000).checks == ()
    assert engine.advance(1).checks == (("a", 1),)


def test_an_op_of_another_group_or_transaction_is_refused() -> None:
    engine = PageEngine()
    offset = engine.send_half("a", group="g")
    engine.send_op("a", COMMIT, group="other")
    engine.send_op("b", COMMIT, offset=offset)

    assert engine.run_batch().refusals == (
        ("a", RefusedReason.OP_GROUP_WRONG),
        ("b", RefusedReason.OP_TRANSACTION_ID_WRONG),
    )
    assert engine.pending == 1


def test_an_op_waits_for_its_half() -> None:
    engine = PageEngine()
    engine.send_op("a", COMMIT, offset=0)
    assert engine.run_batch() == BatchOutcome()

    engine.send_half("a")
    assert engine.run_batch().finals == ("a",)


def test_an_op_whose_half_never_comes_is_refused() -> None:
    engine = PageEngine()
    engine.send_op("a", COMMIT, offset=3)
    engine.run_batch()

    assert engine.advance_to_deadline().refusals == (("a", RefusedReason.OP_WITHOUT_HALF),)


def test_new_transactions_are_refused_where_settings_say_so() -> None:
    engine = PageEngine(Settings(reject_transactions=True))
    engine.send_half("a")

    assert engine.run_batch().refusals == (("a", RefusedReason.TRANSACTIONS_REJECTED),)


def test_a_half_that_is_too_old_is_discarded_in_any_page() -> None:
    engine = PageEngine(Settings(page_size=1, half_retention_ms=1_000, check_max=9))
    engine.send_half("a")
    engine.send_half("b")

    assert engine.advance(1_001).discards == ("a", "b")


def test_where_nothing_is_remembered_nothing_is_due() -> None:
    engine = PageEngine()

    with pytest.raises(NotFoundError):
        engine.advance_to_deadline()
    with pytest.raises(NotFoundError):
        engine.send_op("nobody's", COMMIT)
    with pytest.raises(UsageError):
        engine.advance(-1)
