"""Which half offsets an op may name: from the first that the state remembers to the log's end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.unit.notes import Notes

from checkback.checkpoints.logs import Offsets, PlannedBatch
from checkback.protocol.errors import CheckpointError
from checkback.protocol.topics import TopicNames
from checkback.streaming import half_bounds as module
from checkback.streaming.half_bounds import (
    FOLDER,
    PAGES_AHEAD,
    RANGES,
    HalfBounds,
    HalfRange,
    half_log_ends,
    set_op_ranges,
)
from checkback.streaming.read_until import BatchPlans

NAMES = TopicNames()
PAGE_SIZE = 8
AHEAD = PAGES_AHEAD * PAGE_SIZE
READ = {0: 5_000, 1: 5_001}
BEFORE: Offsets = {NAMES.half: READ, NAMES.op: {0: 3}, NAMES.feedback: {0: 3}}
WITH_OPS: Offsets = {**BEFORE, NAMES.op: {0: 4}}


def plans(
    ends: Offsets = WITH_OPS, planned_ms: int = 1_000, *, is_first: bool = True
) -> BatchPlans:
    return BatchPlans(PlannedBatch(planned_ms, ends, {}), PlannedBatch(900, BEFORE, {}), is_first)


def upto(*ends: int) -> dict[int, HalfRange]:
    """Return the ranges of partitions of which no first page is known."""
    return {number: HalfRange(0, end + AHEAD) for number, end in enumerate(ends)}


@dataclass
class Driver:
    """A driver over a checkpoint; each `Driver` is a run of its own."""

    store: Any
    stored: Mapping[int, int] = field(default_factory=lambda: {0: 10, 1: 20})
    is_begun: bool = False
    looked: int = 0
    first_pages: Mapping[int, int] | None = None

    def __post_init__(self) -> None:
        self.bounds = HalfBounds(
            self.store,
            self._look,
            lambda: self.first_pages,
            lambda _: self.is_begun,
            NAMES,
            PAGE_SIZE,
        )

    def decide(self, batch_id: int, planned: BatchPlans | None = None) -> Mapping[int, HalfRange]:
        return self.bounds.of_batch(batch_id, planned or plans())

    def _look(self, partitions: Collection[int]) -> Mapping[int, int]:
        assert set(partitions) == {0, 1}
        self.looked += 1
        return self.stored


def test_an_op_may_name_some_pages_more_than_the_log_has() -> None:
    assert Driver(Notes()).decide(5) == upto(10, 20)


def test_a_note_is_written_where_the_log_has_grown_past_the_last_one() -> None:
    notes = Notes()
    driver = Driver(notes)
    first = driver.decide(5)

    driver.stored = {0: 10 + AHEAD, 1: 21}
    assert driver.decide(6) == first
    driver.stored = {0: 11 + AHEAD, 1: 21}
    assert driver.decide(7) == upto(11 + AHEAD, 21)

    assert list(notes.files) == [f"{FOLDER}/7.json"]


def test_a_partition_that_is_new_gets_a_note() -> None:
    driver = Driver(Notes(), {0: 10})
    assert driver.decide(5) == upto(10)
    driver.stored = {0: 10, 1: 1}

    assert driver.decide(6) == upto(10, 1)


def test_where_the_brokers_are_silent_an_op_may_name_any_half_and_a_replay_says_so() -> None:
    notes = Notes()
    driver = Driver(notes)
    driver.decide(5)

    driver.stored = {}
    assert driver.decide(6) == {}
    assert Driver(notes, is_begun=True).decide(6) == {}
    driver.stored = {0: 10, 1: 20}
    assert driver.decide(7) == upto(10, 20)


def test_of_pages_that_were_read_an_op_may_name_those_with_something_remembered() -> None:
    driver = Driver(Notes(), first_pages={0: 40})

    assert driver.decide(5) == {0: HalfRange(320, 10 + AHEAD), 1: HalfRange(5_001, 20 + AHEAD)}


def test_halves_that_are_not_read_may_be_named_whatever_waits_in_later_pages() -> None:
    assert Driver(Notes(), first_pages={0: 90_000}).decide(5)[0].first == READ[0]


@pytest.mark.parametrize("before", [None, PlannedBatch(900, {NAMES.op: {0: 3}}, {})])
def test_a_partition_of_which_nothing_was_read_may_be_named_from_its_start(
    before: PlannedBatch | None,
) -> None:
    planned = BatchPlans(PlannedBatch(1_000, WITH_OPS, {}), before, is_first=True)

    assert Driver(Notes(), first_pages={}).decide(5, planned) == upto(10, 20)


def test_a_note_is_written_where_the_state_has_forgotten_some_pages() -> None:
    notes = Notes()
    driver = Driver(notes, first_pages=None)
    driver.decide(5)

    driver.first_pages = {0: PAGES_AHEAD - 1, 1: PAGES_AHEAD - 1}
    assert driver.decide(6) == upto(10, 20)
    driver.first_pages = {0: PAGES_AHEAD, 1: PAGES_AHEAD - 1}
    assert driver.decide(7)[0].first == AHEAD

    assert list(notes.files) == [f"{FOLDER}/7.json"]


def test_brokers_are_not_asked_about_a_batch_without_ops() -> None:
    driver = Driver(Notes())

    assert driver.decide(5, plans({**BEFORE, NAMES.half: {0: 9, 1: 9}})) == {}
    assert driver.looked == 0


@pytest.mark.parametrize("noted_in", [3, 5])
def test_a_batch_that_was_begun_decides_as_its_first_try(noted_in: int) -> None:
    """Whether it wrote a note itself, or went by an earlier one."""
    notes = Notes()
    driver = Driver(notes, first_pages={0: 9, 1: 9})
    first = driver.decide(noted_in)
    for batch_id in range(noted_in + 1, 6):
        first = driver.decide(batch_id)

    replay = Driver(notes, {0: 10**9, 1: 10**9}, is_begun=True, first_pages={0: 600})

    assert replay.decide(5) == first
    assert replay.looked == 0


def test_after_a_batch_that_runs_again_the_log_is_looked_at() -> None:
    notes = Notes()
    Driver(notes).decide(5)
    replay = Driver(notes, {0: 10**9, 1: 0}, is_begun=True)
    replay.decide(5)

    assert replay.decide(6) == upto(10**9, 0)


def test_whether_it_was_begun_is_asked_of_the_first_batch_of_a_run_only() -> None:
    """Where a ledger is broken, the look at it ended the job before Kafka had the batch."""
    driver = Driver(Notes(), is_begun=True)

    assert driver.decide(5, plans(is_first=False)) == upto(10, 20)


def test_a_batch_that_an_earlier_version_began_lets_every_op_pass() -> None:
    assert Driver(Notes(), is_begun=True).decide(5) == {}


def test_of_two_drivers_with_one_batch_the_first_to_note_decides() -> None:
    """The younger one runs the batch as its first; the older one may wake up in it at any time."""
    notes = Notes()
    older = Driver(notes)
    older.decide(4)
    older.stored = {0: 10**9, 1: 0}

    younger = Driver(notes).decide(5)

    assert older.decide(5) == younger
    assert Driver(notes, is_begun=True).decide(5) == younger


def test_a_note_of_a_plan_that_was_dropped_says_nothing_of_its_successor() -> None:
    notes = Notes()
    Driver(notes, {0: 0, 1: 0}).decide(5)

    assert Driver(notes).decide(5, plans(planned_ms=2_000)) == upto(10, 20)
    assert Driver(notes, is_begun=True).decide(5, plans(planned_ms=3_000)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"planned_ms": 1, "halves": []}',
        '{"planned_ms": 1, "halves": {"0": 1}}',
        '{"halves": {"0": [1, 2]}}',
    ],
)
def test_a_note_that_can_not_be_read_is_named(text: str) -> None:
    with pytest.raises(CheckpointError, match=r"half_bounds/5\.json"):
        Driver(Notes({f"{FOLDER}/5.json": text}), is_begun=True).decide(5)


def test_silent_brokers_give_no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})

    assert half_log_ends(admin, NAMES.half, [0]) == {}


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ({0: HalfRange(3, 50), 2: HalfRange(0, 70)}, f"3:50,0:{2**63 - 1},0:70"),
        ({}, ""),
    ],
)
def test_tasks_get_a_range_for_every_partition_up_to_the_last(
    ranges: dict[int, HalfRange], text: str
) -> None:
    properties: dict[str, str] = {}
    context: Any = SimpleNamespace(setLocalProperty=properties.__setitem__)

    set_op_ranges(context, ranges)

    assert properties == {RANGES: text}
