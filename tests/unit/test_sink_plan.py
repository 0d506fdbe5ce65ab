"""Which records a batch has to look up, and in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.deciding import page_outcome

from checkback.sinks.kafka.read.record_reader import RUN_GAP_MAX, _runs
from checkback.sinks.lookups import half_lookups, op_lookups
from checkback.state import Action
from checkback.state.formats.outcome import REST_UNKNOWN


def test_halves_of_all_pages_are_read_in_ascending_order_per_partition() -> None:
    outcomes = [
        page_outcome(1, (Action.COMMIT, 2_000, 0, 2_000)),
        page_outcome(0, (Action.CHECK, 9, 3, 9), (Action.DISCARD_EXPIRED, 4, 1, 4)),
        page_outcome(1, (Action.COMMIT, 7, 0, 7), (Action.ROLLBACK, 8, 0, 8)),
    ]

    found = [(lookup.partition, list(lookup)) for lookup in half_lookups(outcomes)]

    assert found == [
        (0, [(4, Action.DISCARD_EXPIRED, 1), (9, Action.CHECK, 3)]),
        (1, [(7, Action.COMMIT, 0), (2_000, Action.COMMIT, 0)]),
    ]


def test_a_look_up_tells_which_half_was_decided() -> None:
    decided = page_outcome(
        0, (Action.COMMIT, 9, 0, 9), (Action.PREPARED, 5, 0, 5), (Action.DISCARD_EXPIRED, 4, 1, 4)
    )
    known = replace(decided, identity=np.array([1, 2, 3]), identity_rest=np.array([10, 20, 30]))
    other_page = page_outcome(0, (Action.COMMIT, 2_000, 0, 2_000))

    [lookup] = half_lookups([known, other_page])

    assert lookup.offset.tolist() == [4, 9, 2_000]
    assert lookup.identity.tolist() == [[3, 30], [1, 10], [REST_UNKNOWN, REST_UNKNOWN]]
    assert lookup.only(lookup.action == Action.COMMIT).identity.tolist()[0] == [1, 10]


def test_a_refused_op_is_read_where_it_is_not_where_it_points() -> None:
    outcomes = [page_outcome(3, (Action.REFUSE_OP, 5, 40, 99), (Action.REFUSE_HALF, 6, 2, 6))]

    assert [list(lookup) for lookup in op_lookups(outcomes)] == [[(99, Action.REFUSE_OP, 40)]]
    assert [list(lookup) for lookup in half_lookups(outcomes)] == [[(6, Action.REFUSE_HALF, 2)]]


def test_nothing_decided_needs_nothing() -> None:
    assert half_lookups([page_outcome(0), page_outcome(0, (Action.ROLLBACK, 1, 0, 1))]) == []


def test_a_seek_is_made_where_reading_over_the_gap_costs_more() -> None:
    offsets = np.array([1, 2, 2 + RUN_GAP_MAX, 3 + 2 * RUN_GAP_MAX], np.int64)

    assert [run.tolist() for run in _runs(offsets)] == [
        [1, 2, 2 + RUN_GAP_MAX],
        [3 + 2 * RUN_GAP_MAX],
    ]
    assert _runs(np.array([], np.int64)) == []
