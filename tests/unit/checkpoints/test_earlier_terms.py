"""A batch that a job from before the notes of terms began is finished by what it was decided by."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from tests.unit.notes import Notes
from tests.unit.state.building import RULES

from checkback.checkpoints.own_files.batch_terms import AccessVersion, BatchTerms
from checkback.checkpoints.own_files.earlier_terms import earlier_access, earlier_terms
from checkback.checkpoints.spark_files.logs import PlannedBatch
from checkback.protocol.errors import CheckpointError

BEFORE = PlannedBatch(5_000, {"half": {0: 10, 1: 10}, "op": {0: 5, 1: 5}}, {})
PLAN = PlannedBatch(9_000, {"half": {0: 20, 1: 10}, "op": {0: 5, 1: 5}}, {})


def entry(from_ms: int, **changed: int) -> dict[str, Any]:
    rules = {**asdict(replace(RULES, check_max=from_ms)), "batch_events_max": 1_000, **changed}
    return {"from_ms": from_ms, "rules": rules}


def store(**files: Any) -> Any:
    """Return a checkpoint of 641b9cc; `held_back_7=…` is checkback/held_back/7.json."""
    history = {"version": 1, "entries": [entry(1), entry(8_000), entry(9_001)]}
    stored = {"rules_3": history, **files}
    names = {name: "/".join(name.rsplit("_", 1)) + ".json" for name in stored}
    return Notes({names[name]: json.dumps(content) for name, content in stored.items()})


def terms(checkpoint: Any) -> BatchTerms:
    found = earlier_terms(checkpoint, 7, PLAN, BEFORE)
    assert found is not None
    return found


def test_the_rules_of_the_plan_s_time_decide() -> None:
    found = terms(store())

    assert found.rules == replace(RULES, check_max=8_000)
    assert (found.hidden, found.op_ranges, found.access) == (frozenset(), {}, AccessVersion())


def test_a_batch_that_its_limit_may_have_cut_has_everything_hidden() -> None:
    history = {"version": 1, "entries": [entry(1, batch_events_max=11)]}

    found = terms(store(rules_3=history))

    assert found.hidden == {0, 1}


@pytest.mark.parametrize(("until_ms", "hidden"), [(5_000, {1}), (4_000, set())])
def test_what_was_held_back_of_this_plan_is_hidden(until_ms: int, hidden: set[int]) -> None:
    note = {"read_until_ms": until_ms, "partitions": [1]}

    found = terms(store(held_back_7=note))

    assert found.hidden == hidden


@pytest.mark.parametrize(
    ("notes", "first"),
    [
        ({"half_bounds_7": {"planned_ms": 9_000, "halves": {"0": [3, 90]}}}, 3),
        ({"half_bounds_7": {"planned_ms": 1, "halves": {"0": [3, 90]}}}, None),
        ({"half_bounds_4": {"planned_ms": 1, "halves": {"0": [4, 90]}}}, 4),
        ({"half_bounds_8": {"planned_ms": 1, "halves": {"0": [4, 90]}}}, None),
    ],
)
def test_the_newest_range_up_to_the_batch_holds(notes: dict[str, Any], first: int | None) -> None:
    found = terms(store(**notes))

    assert ({at: pair.first for at, pair in found.op_ranges.items()}.get(0)) == first


def test_the_access_rules_that_were_recorded_last_count() -> None:
    record = {"from_batch": 3, "version": "named", "salt": "s", "rules": {"a": 1}}

    found = store(access_1000000=record)

    assert earlier_access(found) == AccessVersion("named", "s")
    assert earlier_access(store()) is None


def test_without_rules_nothing_is_known() -> None:
    assert earlier_terms(Notes(), 7, PLAN, BEFORE) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("history", [[], {"entries": []}, {"entries": [{"from_ms": 1}]}])
def test_rules_that_can_not_be_read_are_refused(history: Any) -> None:
    with pytest.raises(CheckpointError, match="can't be read"):
        earlier_terms(store(rules_3=history), 7, PLAN, BEFORE)
