"""What a marker says of batches, and when it has to be moved although nothing is written."""

from __future__ import annotations

from checkback.sinks.kafka.marker import RENEWAL_MS, Marker


def test_one_row_of_a_batch_is_some_of_it() -> None:
    in_part, whole = Marker(3, 0, rows_done=1), Marker(3, 0)

    assert [in_part.has_any_of(batch) for batch in (2, 3, 4)] == [True, True, False]
    assert [whole.has_any_of(batch) for batch in (2, 3)] == [True, False]


def test_a_marker_is_renewed_after_an_hour_also_where_the_clock_was_set_back() -> None:
    moved_at_ms = 1_700_000_000_000
    marker = Marker(3, moved_at_ms)
    steps_ms = (0, RENEWAL_MS - 1, RENEWAL_MS, 1 - RENEWAL_MS, -RENEWAL_MS)

    due = [marker.is_due_for_renewal(moved_at_ms + step_ms) for step_ms in steps_ms]

    assert due == [False, False, True, False, True]
