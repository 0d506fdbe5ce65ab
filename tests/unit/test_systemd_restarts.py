"""The unit of the job in deploy/systemd/ restarts it as docs/operating/bad-days.md says."""

from __future__ import annotations

from pathlib import Path

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "checkback.service"


def test_systemd_starts_the_job_again_for_as_long_as_an_outage_takes() -> None:
    """With a limit the unit stays down once the brokers were away for some minutes."""
    unit = UNIT.read_text("utf-8").splitlines()

    assert {"Restart=on-failure", "StartLimitIntervalSec=0"} <= set(unit)
    assert not any(line.startswith("StartLimitBurst=") for line in unit)
