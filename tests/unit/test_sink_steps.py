"""A batch in steps: in one order, wherever it is cut."""

from __future__ import annotations

import pytest
from tests.deciding import page_outcome

from checkback.protocol.errors import CheckpointError
from checkback.sinks.partition.chunks import Steps
from checkback.state import Action, Outcome

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


def test_a_batch_that_fits_is_one_step_and_stays_as_it_is() -> None:
    outcomes = pages()

    [step] = Steps(outcomes, 0, 5)

    assert step.outcomes is outcomes
    assert (step.rows_done, step.is_last) == (5, True)


@pytest.mark.parametrize("rows_max", [1, 2, 3, 4])
def test_steps_have_all_rows_once_in_the_order_of_halves(rows_max: int) -> None:
    steps = list(Steps(pages(), 0, rows_max))

    assert [row for step in steps for row in rows_of(list(step.outcomes))] == IN_ORDER
    assert [step.is_last for step in steps] == [False] * (len(steps) - 1) + [True]
    assert max(len(rows_of(list(step.outcomes))) for step in steps) <= rows_max


@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_a_later_try_goes_on_behind_the_rows_that_are_written(done: int) -> None:
    """Whatever its own steps are."""
    steps = list(Steps(pages(), done, 500))

    assert [row for step in steps for row in rows_of(list(step.outcomes))] == IN_ORDER[done:]
    assert steps[-1].rows_done == 5


@pytest.mark.parametrize("done", [5, 6])
def test_more_rows_than_there_are_can_not_be_written(done: int) -> None:
    with pytest.raises(CheckpointError, match="says that"):
        list(Steps(pages(), done, 3))


def test_a_batch_without_rows_is_one_step() -> None:
    [step] = Steps([], 0, 3)

    assert (step.rows_done, step.is_last) == (0, True)
