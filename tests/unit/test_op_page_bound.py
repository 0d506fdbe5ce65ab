"""What the class that bounds pages shares with Python, and what the driver tells the tasks."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from checkback.checkpoints.logs import PlannedBatch
from checkback.protocol.refusals import RefusedReason
from checkback.state import DIRECT_SOURCE
from checkback.state.identity import TRANSACTION_BITS
from checkback.state.shares import GROUPS_AT_ONCE
from checkback.streaming.op_page_bound import BOUND, PROPERTY, tell_half_ends

SOURCE = resources.files("checkback.streaming").joinpath(f"{BOUND}.java").read_text("utf-8")
EXPECTED = {
    "ADMITTED": "0",
    "OP_PAGES_EXCEEDED": str(RefusedReason.OP_PAGES_EXCEEDED.value),
    "HALF_ENDS": f'"{PROPERTY}"',
    "GROUPS_AT_ONCE": str(GROUPS_AT_ONCE),
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
    ("ends", "told"),
    [
        ({"half": {1: 7, 0: 5, 3: 9}, "op": {0: 99}}, "5,7,0,9"),
        ({"half": {0: 5}}, "5"),
        ({}, ""),
    ],
)
def test_tasks_are_told_where_the_batch_ends_in_each_half_partition(
    ends: dict[str, dict[int, int]], told: str
) -> None:
    context: Any = Context()

    tell_half_ends(context, PlannedBatch(1, ends, {}), "half")

    assert context.told == {PROPERTY: told}
