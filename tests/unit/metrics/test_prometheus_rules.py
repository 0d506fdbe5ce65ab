"""Prometheus' own tool: it takes the rules, each alert fires when it should, and only then."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkback.deploy.alerts import RULES, rule_document

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "checkback.json"
CASES = Path(__file__).with_name("alerts.test.yml")

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is missing; `make programs` fetches it from Debian's package prometheus",
)


def promtool(*arguments: str) -> None:
    ran = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_prometheus_takes_the_rules() -> None:
    promtool("check", "rules", str(RULES))


def test_prometheus_takes_the_settings_that_compose_gives_it(tmp_path: Path) -> None:
    """Each of its files lies where compose mounts it: the rules beside the settings."""
    folder = ROOT / "deploy" / "compose"
    services: Any = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))["services"]
    for volume in services["prometheus"]["volumes"]:
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            shutil.copy(folder / source, tmp_path / Path(target).name)

    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_each_alert_fires_when_it_should() -> None:
    promtool("test", "rules", str(CASES))


def test_each_alert_has_a_good_day_and_a_case_in_which_it_fires_and_ends() -> None:
    cases: Any = yaml.safe_load(CASES.read_text("utf-8"))
    good, *bad = cases["tests"]
    ends = {
        earlier["alertname"]
        for case in bad
        for earlier, later in pairwise(case["alert_rule_test"])
        if earlier["alertname"] == later["alertname"]
        and earlier.get("exp_alerts")
        and not later.get("exp_alerts")
    }
    rests = {check["alertname"] for check in good["alert_rule_test"]}

    assert not any(check.get("exp_alerts") for check in good["alert_rule_test"])
    assert rests == ends == {rule["alert"] for rule in rule_document()["groups"][0]["rules"]}


def test_prometheus_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [
        target["expr"].replace("$__rate_interval", "5m")
        for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]
        for target in panel.get("targets", [])
    ]
    rules = [{"record": f"query:{number}", "expr": one} for number, one in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")

    assert len(queries) > 20
    promtool("check", "rules", str(file))
