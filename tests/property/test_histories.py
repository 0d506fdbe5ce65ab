"""Every history of up to five events, divided into batches in every possible way.

Histories of different offsets do not affect each other. So all histories with the same times run as
offsets of one page.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deciding import rules
from tests.property.model import COMMIT, DELIVERED, ROLLBACK, UNKNOWN, Act, Model, Record
from tests.property.paged import PagedEngine

from checkback.protocol.refusals import RefusedReason
from checkback.state import Action, Counter, EventKind

RULES = rules(
    transaction_timeout_ms=60,
    check_interval_ms=60,
    check_max=1,
    half_retention_ms=400,
    verdict_retention_ms=100,
)
START = 1_000_000
PAGE_SIZE = 16_384


Written = Callable[[int, int, int], Record]


def half(offset: int, _source: int, now: int) -> Record:
    return Record(EventKind.HALF, offset, offset, now)


def op(state: int, group: int = 1, transaction: int = 1) -> Written:
    def record(offset: int, source: int, now: int) -> Record:
        return Record(EventKind.OP, offset, source, now, group, transaction, state)

    return record


def undelivered(offset: int, source: int, now: int) -> Record:
    return Record(EventKind.UNDELIVERED, offset, source, now, 0, 0, 1)


RECORDS: tuple[Written, ...] = (
    half,
    op(COMMIT),
    op(ROLLBACK),
    op(UNKNOWN),
    op(COMMIT, group=2),
    op(ROLLBACK, transaction=2),
    undelivered,
)


DELIVERED_RECORDS: tuple[Written, ...] = (
    half,
    op(DELIVERED),
    op(COMMIT),
    op(ROLLBACK),
    op(DELIVERED, transaction=2),
)
STEPS = (61, 103, 401, -50)
"""Time steps: past a deadline, past the memory of a verdict, past the retention, and back."""


LENGTHS = [*range(1, 5), pytest.param(5, marks=pytest.mark.nightly)]
"""Of events; by day every history of up to four."""


@pytest.mark.parametrize("length", LENGTHS)
def test_engine_and_model_agree_on_every_history(length: int) -> None:
    for moments in product((0, *STEPS), repeat=length):
        _run_all_histories(moments, RECORDS)


@pytest.mark.parametrize("length", LENGTHS)
def test_engine_and_model_agree_on_every_history_with_deliveries(length: int) -> None:
    for moments in product((0, *STEPS), repeat=length):
        _run_all_histories(moments, DELIVERED_RECORDS)


def _run_all_histories(moments: tuple[int, ...], kinds: tuple[Written, ...]) -> None:
    """Run every history of these moments: 0 is a record, any other moment a time step."""
    records = sum(1 for step in moments if step == 0)
    histories = list(product(kinds, repeat=records))
    model, engine, now = Model(), PagedEngine(PAGE_SIZE), START
    batch: list[Record] = []
    written = 0
    for step in (*moments, 1):
        if step == 0:
            source = written * len(histories)
            batch += [one[written](at, source + at, now) for at, one in enumerate(histories)]
            written += 1
            continue
        assert engine.batch(batch, now, RULES) == model.batch(batch, now, RULES)
        batch, now = [], now + step
    assert engine.batch(batch, now, RULES) == model.batch(batch, now, RULES)


records_of_one_offset = st.lists(st.sampled_from([COMMIT, ROLLBACK, UNKNOWN]), max_size=4)


@settings(max_examples=150)
@given(
    said=st.lists(records_of_one_offset, min_size=1, max_size=20),
    cuts=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=6),
    page_size=st.sampled_from([1, 7, 1024]),
)
def test_how_records_are_cut_into_batches_changes_no_verdict(
    said: list[list[int]], cuts: list[tuple[int, int]], page_size: int
) -> None:
    halves = [half(offset, offset, START) for offset in range(len(said))]
    named = [(offset, state) for offset, states in enumerate(said) for state in states]
    ops = [op(state)(offset, source, START) for source, (offset, state) in enumerate(named)]
    at_once = PagedEngine(1024).batch(halves + ops, START, RULES)
    engine = PagedEngine(page_size)
    acts: set[Act] = set()
    tally: Tally[Counter] = Tally()
    for some_halves, some_ops in [*cuts, (len(halves), len(ops))]:
        batch = halves[:some_halves] + ops[:some_ops]
        halves, ops = halves[some_halves:], ops[some_ops:]
        found, counted = engine.batch(batch, START, RULES)
        acts |= found
        tally.update(counted)
    tally.pop(Counter.OPS_WAITING, None)
    assert (acts, tally) == at_once
    assert {act.offset for act in acts if act.action in (Action.COMMIT, Action.ROLLBACK)} == {
        offset for offset, states in enumerate(said) if set(states) - {UNKNOWN}
    }


def refused_op(offset: int, source: int, now: int) -> Record:
    """An op that access control refused: the page that it is in has nothing to do with its half."""
    del offset
    reason = RefusedReason.SIGNATURE_WRONG
    return Record(EventKind.REFUSED_OP, source, source, now, detail=reason)


@settings(max_examples=150)
@given(
    said=st.lists(st.sampled_from(RECORDS), max_size=6),
    steps=st.lists(st.sampled_from([0, *STEPS]), min_size=6, max_size=6),
    forged=st.lists(st.integers(0, 5), max_size=4),
    page_size=st.sampled_from([1, 7, 1024]),
)
def test_what_access_control_refuses_changes_nothing_else(
    said: list[Written], steps: list[int], forged: list[int], page_size: int
) -> None:
    """A half of another and ops by another, at any moment: only their own refusals come of them."""
    honest, attacked = PagedEngine(page_size), PagedEngine(page_size)
    now = START
    for number, step in enumerate(steps):
        batch = [one(1, number, now) for one in said[number : number + 1]]
        attack = [refused_op(1, 100 + number + place, now) for place in range(forged.count(number))]
        foreign = Record(
            EventKind.REFUSED_HALF, 2 + number, 2 + number, now,
            detail=RefusedReason.ACCESS_KEY_MISSING,
        )  # fmt: skip
        expected, _ = honest.batch(batch, now, RULES)
        found, _ = attacked.batch([*attack, foreign, *batch], now, RULES)
        own = {Act(Action.REFUSE_OP, one.offset, one.detail, one.source) for one in attack}
        own.add(Act(Action.REFUSE_HALF, foreign.offset, foreign.detail, foreign.source))
        assert found == expected | own
        assert sorted(attacked.pending_times()) == sorted(honest.pending_times())
        now += step
