"""What the class that bounds pages shares with Python, and what the driver tells the tasks."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from checkback.checkpoints.logs import Offsets, PlannedBatch
from checkback.protocol.refusals import RefusedReason
from checkback.state import DIRECT_SOURCE
from checkback.state.identity import TRANSACTION_BITS
from checkback.state.shares import GROUPS_AT_ONCE
from checkback.streaming.half_bounds import HalfRange
from checkback.streaming.op_page_bound import BOUND, PROPERTY, tell_half_pages
from checkback.streaming.read_until import BatchPlans

SOURCE = resources.files("checkback.streaming").joinpath(f"{BOUND}.java").read_text("utf-8")
LAST = 2**63 - 1
EXPECTED = {
    "ADMITTED": "0",
    "OP_WITHOUT_HALF": str(RefusedReason.OP_WITHOUT_HALF.value),
    "OP_PAGES_EXCEEDED": str(RefusedReason.OP_PAGES_EXCEEDED.value),
    "HALF_PAGES": f'"{PROPERTY}"',
    "GROUPS_AT_ONCE": str(GROUPS_AT_ONCE),
    "EARLIER_PAGES": "10",
    "TRANSACTION_BITS": str(TRANSACTION_BITS),
    "DIRECT_SOURCE": f"{DIRECT_SOURCE}L",
}


def test_the_constants_of_the_class_are_pythons() -> None:
    assert dict(re.findall(r"static final \w+ (\w+) = ([^;]+);", SOURCE)) == EXPECTED


class Context:
    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802 - Spark's name
        self.told[name] = value


@pytest.mark.parametrize(
    ("before", "ends", "named", "told"),
    [
        (
            {"half": {0: 4, 1: 7}},
            {"half": {1: 7, 0: 5, 3: 9}, "op": {0: 99}},
            {0: HalfRange(3, 50), 1: HalfRange(0, 70)},
            f"4:5:3:50,7:7:0:70,0:0:0:{LAST},0:9:0:{LAST}",
        ),
        (None, {"half": {0: 5}}, {}, f"0:5:0:{LAST}"),
        (None, {}, {0: HalfRange(0, 9)}, ""),
    ],
)
def test_tasks_are_told_which_halves_a_batch_reads_and_which_there_can_be(
    before: Offsets | None, ends: Offsets, named: dict[int, HalfRange], told: str
) -> None:
    context: Any = Context()
    plans = BatchPlans(
        PlannedBatch(1, ends, {}),
        None if before is None else PlannedBatch(0, before, {}),
        is_first=False,
    )

    tell_half_pages(context, plans, named, "half")

    assert context.told == {PROPERTY: told}
