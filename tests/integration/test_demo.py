"""The demo itself, as a user runs it: every fate happens, and the audit is green."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.running import wait_until

from checkback.demo.fates import KILLS, Fate, count_fates

ORDERS = 40


@pytest.mark.timeout(660)  # above the demo's own limits, which say what it waited for
def test_every_order_meets_its_fate_and_the_audit_passes(tmp_path: Path) -> None:
    start = "from checkback.commands import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", start, "demo", "--orders", str(ORDERS), "--output", "json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    report = json.loads(ran.stdout)
    shown = [line for line in ran.stderr.splitlines() if "--config" not in line]  # to be copied
    assert max(map(len, shown)) <= 80
    assert len(shown) == len(ran.stderr.splitlines()) - 1
    fates = {Fate(line["fate"]): line for line in report["fates"]}

    assert report["audit_passed"] is True
    assert report["findings"] == []
    assert report["kills"] == KILLS + 1
    assert {fate: line["orders"] for fate, line in fates.items()} == count_fates(ORDERS)
    for fate in (
        Fate.COMMITTED,
        Fate.DELIVERED_DIRECTLY,
        Fate.KILLED_IN_DELIVERY,
        Fate.UNKNOWN_THEN_COMMITTED,
        Fate.KILLED_BEFORE_OP_COMMITTED,
    ):
        assert fates[fate]["finals"] == fates[fate]["committed_locally"] == fates[fate]["orders"]
    for fate in (
        Fate.ROLLED_BACK,
        Fate.UNKNOWN_THEN_ROLLED_BACK,
        Fate.KILLED_BEFORE_LOCAL,
        Fate.NEVER_ANSWERED,
    ):
        assert fates[fate]["finals"] == fates[fate]["committed_locally"] == 0
    assert fates[Fate.DELIVERED_DIRECTLY]["delivered"] > 0
    assert all(not line["delivered"] for fate, line in fates.items() if not fate.is_direct)
    in_delivery = fates[Fate.KILLED_IN_DELIVERY]
    assert in_delivery["check_answers"] >= in_delivery["orders"], "nobody could see its message"
    assert not in_delivery["delivered"]
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
