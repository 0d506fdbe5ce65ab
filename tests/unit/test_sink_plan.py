"""Which records a batch has to look up, and its steps: in one order, wherever it is cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.deciding import page_outcome

from checkback.protocol.errors import CheckpointError
from checkback.sinks.kafka.read.record_reader import RUN_GAP_MAX, _runs
from checkback.sinks.lookups import half_lookups, op_lookups
from checkback.sinks.partition.parts import parts_of
from checkback.state import Action, Outcome
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


COMMIT = Action.COMMIT
Row = tuple[int, int, int]


def pages() -> list[Outcome]:
    return [
        page_outcome(1, (COMMIT, 1_024, 0, 1_024), (Action.CHECK, 1_030, 2, 1_030)),
        page_outcome(0, (COMMIT, 7, 0, 7), (Action.REFUSE_OP, 3, 32, 90), (Action.CHECK, 2, 1, 2)),
    ]


def rows_of(outcomes: list[Outcome]) -> list[Row]:
    return [
        (int(action), int(offset), int(source))
        for one in outcomes
        for action, offset, source in zip(one.action, one.offset, one.source_offset, strict=True)
    ]


IN_ORDER = [
    (Action.CHECK, 2, 2), (Action.REFUSE_OP, 3, 90), (COMMIT, 7, 7), (COMMIT, 1_024, 1_024),
    (Action.CHECK, 1_030, 1_030),
]  # fmt: skip


def test_a_batch_that_fits_is_one_part_and_stays_as_it_is() -> None:
    outcomes = pages()

    [part] = parts_of(outcomes, 0, 5)

    assert part.outcomes is outcomes
    assert (part.rows_done, part.is_last) == (5, True)


@pytest.mark.parametrize("rows_max", [1, 2, 3, 4])
def test_parts_have_all_rows_once_in_the_order_of_halves(rows_max: int) -> None:
    parts = list(parts_of(pages(), 0, rows_max))

    assert [row for part in parts for row in rows_of(list(part.outcomes))] == IN_ORDER
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert max(len(rows_of(list(part.outcomes))) for part in parts) <= rows_max


@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_a_later_try_goes_on_behind_the_rows_that_are_written(done: int) -> None:
    """Whatever its own parts are."""
    parts = list(parts_of(pages(), done, 500))

    assert [row for part in parts for row in rows_of(list(part.outcomes))] == IN_ORDER[done:]
    assert parts[-1].rows_done == 5


@pytest.mark.parametrize("done", [5, 6])
def test_more_rows_than_there_are_can_not_be_written(done: int) -> None:
    with pytest.raises(CheckpointError, match="says that"):
        list(parts_of(pages(), done, 3))


def test_a_batch_without_rows_is_one_part() -> None:
    [part] = parts_of([], 0, 3)

    assert (part.rows_done, part.is_last) == (0, True)
