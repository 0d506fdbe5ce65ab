"""The demo itself, as a user runs it: every fate happens, and the audit is green."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.running import wait_until
from tests.integration.scraping import fetch

from checkback.demo.fates import KILLS, Fate, count_fates

ORDERS = 40
START = "from checkback.commands import main; main()"
TRANSACTION = '<th scope="row" class="id"><a href="/transactions/'


@contextmanager
def console_of(demo: subprocess.Popen[str], said: list[str]) -> Iterator[str]:
    """Yield the address of the console whose command the demo prints; collect what it says."""
    assert demo.stderr is not None
    for line in demo.stderr:
        said.append(line.rstrip("\n"))
        if "--config" in line:
            break
    config = shlex.split(said[-1])[-1]
    console = subprocess.Popen(
        [sys.executable, "-c", START, "console", "--config", config, "--port", "0",
         "--output", "json"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert console.stdout is not None
        yield json.loads(console.stdout.readline())["url"]
    finally:
        console.terminate()
        console.communicate(timeout=30)


def run_demo(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the report of a run that the console showed meanwhile, and the lines that it said.

    Args:
        folder: for its temporary files.
    """
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", START, "demo", "--orders", str(ORDERS), "--output", "json"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        with console_of(demo, said) as url:
            wait_until(
                lambda: TRANSACTION in fetch(f"{url}/parts/pending")[1],
                what="a pending transaction",
            )
        printed, rest = demo.communicate(timeout=600)
    said += rest.splitlines()
    assert demo.returncode == 0, said
    return json.loads(printed), said


@pytest.mark.timeout(660)  # above the demo's own limits, which say what it waited for
def test_every_order_meets_its_fate_and_the_audit_passes(tmp_path: Path) -> None:
    report, said = run_demo(tmp_path)
    shown = [line for line in said if "--config" not in line]  # to be copied
    assert max(map(len, shown)) <= 80
    assert len(shown) == len(said) - 1
    fates = {Fate(line["fate"]): line for line in report["fates"]}

    assert report["audit_passed"] is True
    assert report["findings"] == []
    assert report["kills"] == KILLS + 1
    assert {fate: line["orders"] for fate, line in fates.items()} == count_fates(ORDERS)
    for fate in (Fate.COMMITTED, Fate.UNKNOWN_THEN_COMMITTED, Fate.KILLED_BEFORE_OP_COMMITTED):
        assert fates[fate]["finals"] == fates[fate]["committed_locally"] == fates[fate]["orders"]
    for fate in (
        Fate.ROLLED_BACK,
        Fate.UNKNOWN_THEN_ROLLED_BACK,
        Fate.KILLED_BEFORE_LOCAL,
        Fate.NEVER_ANSWERED,
    ):
        assert fates[fate]["finals"] == fates[fate]["committed_locally"] == 0
    for fate in (Fate.UNKNOWN_THEN_COMMITTED, Fate.UNKNOWN_THEN_ROLLED_BACK):
        assert fates[fate]["check_answers"] >= 2 * fates[fate]["orders"], "unknown, then known"
    for fate in (Fate.KILLED_BEFORE_OP_COMMITTED, Fate.KILLED_BEFORE_LOCAL):
        assert fates[fate]["check_answers"] >= fates[fate]["orders"]
    never = fates[Fate.NEVER_ANSWERED]
    assert never["discarded"] == never["orders"]
    assert never["check_answers"] == 0
    # The sink's processes end once they see that Spark has.
    wait_until(
        lambda: not list(tmp_path.iterdir()), 60, f"a green run leaves nothing in {tmp_path}"
    )
