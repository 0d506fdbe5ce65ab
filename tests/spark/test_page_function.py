"""The function that Spark's workers load: anew for each pass, and what loading it does for them."""

from __future__ import annotations

import pickle
import subprocess
import sys

from checkback.protocol.configuration import Settings
from checkback.state import Rules, RulesHistory
from checkback.streaming.page_keys import PageKeys
from checkback.streaming.pages import PageFunction, PageSettings

RULES = Rules.from_settings(Settings())
SETTINGS = PageSettings(1024, RulesHistory(((0, RULES),)), PageKeys(4))

LOAD_TWICE = """
import gc, pickle, sys
frozen = []
for _ in range(2):
    pickle.loads(bytes.fromhex(sys.argv[1]))
    frozen.append(gc.get_freeze_count())
    garbage = [[] for _ in range(1_000)]
print(*frozen)
"""


def test_each_pass_has_a_budget_of_its_own() -> None:
    function = PageFunction(SETTINGS)
    function.budget.begin(RULES)
    function.budget.left = 0

    loaded = pickle.loads(pickle.dumps(function))  # noqa: S301 - what it just dumped

    assert loaded.settings == SETTINGS
    assert loaded.budget.left is None


def test_a_worker_that_loads_it_keeps_modules_from_the_garbage_collector_once() -> None:
    """Spark collects all garbage after each session: with pandas loaded, 30 ms of walking."""
    packed = pickle.dumps(PageFunction(SETTINGS)).hex()

    run = subprocess.run(
        [sys.executable, "-c", LOAD_TWICE, packed], capture_output=True, text=True, check=True
    )

    first, second = map(int, run.stdout.split())
    assert first > 50_000
    assert second == first
