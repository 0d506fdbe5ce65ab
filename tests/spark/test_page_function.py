"""The function that Spark's workers load for each pass, and what loading it does for them."""

from __future__ import annotations

import pickle
import subprocess
import sys

from checkback.protocol.configuration import Settings
from checkback.state import NOTHING_READ, Rules
from checkback.streaming.pages.page_function import (
    BACKLOG_SLEEP_MS,
    CheckBudget,
    PageFunction,
    PageSettings,
    sleep_ms,
)
from checkback.streaming.pages.page_key import PageKeys

RULES = Rules.from_settings(Settings())
SETTINGS = PageSettings(1024, PageKeys(4))

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


def test_a_page_whose_time_has_come_sleeps_until_the_batch_that_may_tell_more() -> None:
    spent = CheckBudget(left=0, of_pass=10, queued=1_000)

    assert sleep_ms(1_500, 1_000, 900, CheckBudget()) == 500
    assert sleep_ms(990, 1_000, 980, spent) == 1  # the next batch has read up to this one
    assert sleep_ms(500, 1_000, 980, spent) == 10_000  # its turn to ask is far away
    assert sleep_ms(500, 1_000, NOTHING_READ, spent) == BACKLOG_SLEEP_MS
