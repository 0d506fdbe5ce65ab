"""Whatever is written beside it, healthy traffic is final once and in time, and the job runs on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.run import FuzzRun
from tests.seeds import chosen_seed

from checkback.protocol.refusals import ACCESS_REASONS


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


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_with_access_control_nothing_is_believed_that_nobody_may_say(
    bootstrap_servers: str, unique: str, tmp_path: Path
) -> None:
    run = FuzzRun(
        bootstrap_servers,
        unique,
        tmp_path,
        chosen_seed(),
        records=100_000,
        with_access_control=True,
    )
    said = run.go()

    print(said)
    assert [one.name for one in ACCESS_REASONS if one.name not in said] == []
