"""Whatever is written beside it, healthy traffic is final once and in time, and the job runs on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.run import FuzzRun
from tests.seeds import chosen_seed


def test_hostile_records_cost_themselves_only(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    print(FuzzRun(bootstrap_servers, unique, tmp_path, seed=1, records=20_000).go())


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_a_million_hostile_records_cost_themselves_only(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    print(FuzzRun(bootstrap_servers, unique, tmp_path, chosen_seed(), records=1_000_000).go())
