"""What may be cut off a checkpoint's end, and when only the topics help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkback.operations.checkpoint.verification import Problem, Verification
from checkback.operations.rebuild.tail import Cut, find_cut

FILES = [
    *(f"offsets/{number}" for number in range(8)),
    *(f"commits/{number}" for number in range(7)),
    "offsets/.7.crc",
    "state/0/0/7.changelog",
    "metadata",
]
STOPPED = Verification(
    query_id="q",
    state_partitions=2,
    planned_batch=7,
    committed_batch=6,
    whole_batch=6,
    markers={0: 7, 1: 5},
)


def problem(file: str, code: str = "torn") -> Problem:
    return Problem(code, file, "", "")


TORN_PLAN = replace(STOPPED, problems=(problem("offsets/7"),))
TORN_COMMIT = replace(STOPPED, whole_batch=5, problems=(problem("commits/6"),))
LOST_STATE = replace(
    STOPPED, whole_batch=5, problems=(problem("state/0/0/7.changelog", code="state"),)
)


def test_a_torn_plan_of_which_nothing_was_written_goes() -> None:
    assert find_cut(TORN_PLAN, FILES) == Cut(("offsets/7",), 6, None)


def test_a_torn_plan_that_one_partition_wrote_stays() -> None:
    assert find_cut(replace(TORN_PLAN, markers={0: 7, 1: 8}), FILES) is None


@pytest.mark.parametrize("damage", [TORN_COMMIT, LOST_STATE])
def test_a_batch_whose_plan_is_whole_runs_again(damage: Verification) -> None:
    assert find_cut(damage, FILES) == Cut(("commits/6", "offsets/7"), 5, 6)


@pytest.mark.parametrize("damage", [TORN_COMMIT, LOST_STATE])
def test_it_does_not_when_the_one_after_it_was_written(damage: Verification) -> None:
    assert find_cut(replace(damage, markers={0: 8, 1: 7}), FILES) is None


def test_two_batches_are_not_run_again() -> None:
    assert find_cut(replace(LOST_STATE, whole_batch=4), FILES) is None


def test_a_batch_that_was_written_by_a_torn_plan_can_t_be_cut() -> None:
    torn = replace(TORN_COMMIT, problems=(problem("commits/6"), problem("offsets/6")))

    assert find_cut(torn, FILES) is None


def test_the_very_first_plan_may_go_too() -> None:
    torn = Verification("q", None, 2, 0, None, None, {0: 0, 1: 0}, (problem("offsets/0"),))

    assert find_cut(torn, ["offsets/0", "metadata"]) == Cut(("offsets/0",), None, None)
    assert find_cut(replace(torn, markers={0: 1, 1: 0}), ["offsets/0"]) is None


@pytest.mark.parametrize(
    "damage",
    [
        problem("metadata"),
        problem("checkback/identity.json"),
        problem("q", code="marker-missing"),
        problem("offsets/3", code="hole"),
        problem("state/0/1/7.changelog", code="state"),
    ],
)
def test_damage_elsewhere_is_not_mended_by_a_cut(damage: Problem) -> None:
    assert find_cut(replace(TORN_PLAN, problems=(*TORN_PLAN.problems, damage)), FILES) is None


def test_a_whole_checkpoint_is_left_alone() -> None:
    assert find_cut(STOPPED, FILES) is None


def test_without_the_markers_nothing_is_cut() -> None:
    assert find_cut(replace(TORN_PLAN, markers=None), FILES) is None
