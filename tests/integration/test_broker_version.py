"""The brokers' features, and the demo with a relay on the run's brokers, of whatever version."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from tests.integration.running import features

from checkback.demo.fates import plan_orders
from checkback.demo.report import Timeline
from checkback.demo.run import Demonstration, demo_settings

pytestmark = [pytest.mark.versions, pytest.mark.nightly]  # by day test_demo.py has the demo
SEED = 3


def test_the_brokers_features_are_noted(
    bootstrap_servers: str, record_property: Callable[[str, object], None]
) -> None:
    found = features(bootstrap_servers)

    assert found["metadata.version"] > 0
    for name, level in found.items():
        record_property(name, level)


@pytest.mark.timeout(600)
def test_the_demo_with_a_relay_passes_its_audit(bootstrap_servers: str, tmp_path: Path) -> None:
    settings = demo_settings(bootstrap_servers, tmp_path, relay=True)
    said = io.StringIO()

    with Timeline(Console(file=said)) as timeline:
        report = Demonstration(settings, tmp_path, plan_orders(40, SEED), SEED, timeline).run()

    assert not report.findings, said.getvalue()
    assert report.kills
