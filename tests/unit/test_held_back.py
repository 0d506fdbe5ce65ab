"""What a replay repeats, whatever the brokers say by then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.notes import Notes

from checkback.checkpoints.logs import Offsets
from checkback.protocol.errors import CheckpointError
from checkback.state import NOTHING_READ
from checkback.streaming.held_back import FOLDER, HeldBack
from checkback.streaming.read_until import told_of

ENDS: Offsets = {"op": {0: 7}}


@dataclass
class Driver:
    """A driver over a checkpoint; each `Driver` is a run of its own."""

    store: Any
    held_back: Iterable[int] = ()
    is_begun: bool = False
    is_first: bool = True
    looked: list[int] = field(default_factory=list)

    def decide(self, batch_id: int, than_ms: int = 1_000) -> set[int]:
        held = HeldBack(self.store, self._look, lambda _batch: self.is_begun)
        is_first, self.is_first = self.is_first, False
        return set(held.partitions(batch_id, ENDS, than_ms, is_first=is_first))

    def _look(self, ends: Offsets, than_ms: int) -> frozenset[int]:
        assert ends is ENDS
        self.looked.append(than_ms)
        return frozenset(self.held_back)


FOUND = pytest.mark.parametrize("found", [set(), {0}, {1, 12}], ids=str)


@pytest.mark.parametrize("is_first", [True, False])
@FOUND
def test_a_batch_that_was_begun_decides_as_its_first_try(is_first: bool, found: set[int]) -> None:
    notes = Notes()
    assert Driver(notes, held_back=found, is_first=is_first).decide(5) == found

    for now in ({0, 3}, ()):
        replay = Driver(notes, held_back=now, is_begun=True)
        assert replay.decide(5) == found
        assert replay.looked == []


@FOUND
def test_of_two_drivers_with_one_batch_the_first_to_note_decides(found: set[int]) -> None:
    """The younger one runs the batch as its first; the older one may wake up in it at any time."""
    notes = Notes()

    assert Driver(notes, held_back=found).decide(5) == found
    older = Driver(notes, held_back={3}, is_first=False)
    assert older.decide(5) == found
    assert Driver(notes, is_begun=True).decide(5) == found


def test_what_an_older_driver_noted_holds_for_the_younger() -> None:
    notes = Notes()

    assert Driver(notes, held_back={3}, is_first=False).decide(5) == {3}
    assert Driver(notes).decide(5) == {3}


def test_only_what_a_replay_needs_is_noted() -> None:
    notes = Notes()
    driver = Driver(notes)

    for batch_id, found in enumerate([set(), set(), {1}, {1}, set[int]()]):
        driver.held_back = found
        assert driver.decide(batch_id) == found

    assert list(notes.files) == [f"{FOLDER}/3.json"]


def test_a_note_of_a_plan_that_was_dropped_says_nothing_of_its_successor() -> None:
    notes = Notes()
    assert Driver(notes).decide(5, 1_000) == set()

    assert Driver(notes, held_back={3}).decide(5, 2_000) == {3}
    assert Driver(notes, is_begun=True).decide(5, 2_000) == {3}


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"partitions": 1}'])
def test_a_note_that_can_not_be_read_is_named(text: str) -> None:
    with pytest.raises(CheckpointError, match=r"held_back/5\.json"):
        Driver(Notes({f"{FOLDER}/5.json": text}), is_begun=True).decide(5)


def test_what_is_held_back_holds_for_its_partition_alone() -> None:
    assert [told_of("1700,1,12", number) for number in (0, 1, 2, 12)] == [
        1700, NOTHING_READ, 1700, NOTHING_READ,
    ]  # fmt: skip
    assert told_of("1700", 0) == 1700
    assert told_of(str(NOTHING_READ), 0) == NOTHING_READ
