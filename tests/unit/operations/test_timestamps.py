"""Points in time as people read them."""

from __future__ import annotations

from checkback.operations.transactions.timestamps import time_text


def test_a_time_is_told_in_utc_to_the_millisecond() -> None:
    assert time_text(1_795_411_700_007) == "2026-11-23 05:28:20.007Z"
