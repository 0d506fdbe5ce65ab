"""A plugin of pytest: mutmut stops at the first test that notices a change, so it comes soon."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, settings

STATS = Path("mutmut-stats.json")
"""Which test calls what, and how long it takes; mutmut writes it where it then starts the tests."""

# The same histories for every change; that one fails is enough, whatever the shortest would be.
settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that took least time go first."""
    if STATS.exists():
        items.sort(key=lambda item: _seconds().get(item.nodeid, 0.0))


@cache
def _seconds() -> dict[str, float]:
    """Read the times once: the process that is forked for each change has read them."""
    times: dict[str, float] = json.loads(STATS.read_text("utf-8"))["duration_by_test"]
    return times
