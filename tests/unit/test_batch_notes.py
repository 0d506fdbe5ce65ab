"""What the checkpoint keeps of the notes about batches."""

from __future__ import annotations

from typing import Any

from tests.unit.notes import Notes

from checkback.streaming.batch_notes import BatchNotes


def notes(store: Any) -> BatchNotes[list[int]]:
    return BatchNotes(store, "folder", "planned_ms", "said", list)


def test_the_file_has_the_plan_s_time_and_what_is_said() -> None:
    store = Notes()

    assert notes(store).write(5, 1_000, [7]) == [7]
    assert store.files == {"folder/5.json": '{"planned_ms": 1000, "said": [7]}'}
    assert notes(store).read(5) == (1_000, [7])


def test_a_note_of_the_plan_stays_and_one_of_another_plan_is_replaced() -> None:
    store = Notes()
    notes(store).write(5, 1_000, [7])

    assert notes(store).write(5, 1_000, [8]) == [7]
    assert notes(store).of_plan(5, 2_000) is None
    assert notes(store).write(5, 2_000, [9]) == [9]


def test_a_new_note_takes_the_place_of_those_of_earlier_batches() -> None:
    store = Notes()
    for batch in (3, 5, 4):
        notes(store).write(batch, 1_000, [batch])

    assert notes(store).numbers() == [4, 5]
