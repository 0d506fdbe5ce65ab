"""Positions and points in time, as people write and read them."""

from __future__ import annotations

import pytest

from checkback.operations.topics.position import Position
from checkback.operations.transactions.timestamps import time_text


@pytest.mark.parametrize("at", [Position(0, 0), Position(2**31 - 1, 2**63 - 1)])
def test_a_position_that_is_written_is_read_again(at: Position) -> None:
    assert Position.parse(str(at)) == at


@pytest.mark.parametrize("text", ["", "u", "1", "1:", "-1:0", "0:-1", f"{2**31}:0", f"0:{2**63}"])
def test_what_no_record_can_have_is_no_position(text: str) -> None:
    """Beyond Kafka's own numbers, a look into ledger or topic failed as a defect of ours."""
    assert Position.parse(text) is None


def test_a_time_is_told_in_utc_to_the_millisecond() -> None:
    assert time_text(1_795_411_700_007) == "2026-11-23 05:28:20.007Z"
