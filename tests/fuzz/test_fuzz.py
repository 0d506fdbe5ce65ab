"""Whatever is written beside it, healthy traffic is final once and in time, and the job runs on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.run import FuzzRun
from tests.seeds import chosen_seed


@pytest.mark.parametrize("relay", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_hostile_records_cost_themselves_only(
    bootstrap_servers: str, unique: str, tmp_path: Path, relay: bool
) -> None:
    print(FuzzRun(bootstrap_servers, unique, tmp_path, seed=1, records=10_000, relay=relay).go())


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_a_million_hostile_records_cost_themselves_only(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    seed = chosen_seed()
    relay = seed % 4 < 2  # with and without a ledger, which every other seed has
    print(FuzzRun(bootstrap_servers, unique, tmp_path, seed, 1_000_000, relay).go())
