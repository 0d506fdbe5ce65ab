"""`checkback deploy alerts` prints the rules, with links to where the runbooks are published."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkback.commands.docs import pages
from checkback.commands.shared.app import NOUNS, LazyGroup, execute

ROOT = Path(__file__).parents[2]
PAGE = "https://docs.example.org/operating/alerts.html"


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert execute(LazyGroup(NOUNS), ["deploy", "alerts", *options]) == 0
    return capsys.readouterr().out


def rules(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(text)["groups"][0]["rules"])


def test_without_an_address_they_are_those_of_the_checkout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = (ROOT / "deploy" / "prometheus" / "checkback.rules.yml").read_text("utf-8")

    assert printed(capsys) == made.partition("\n")[2]
    assert json.loads(printed(capsys, "--output", "json"))["rules"] == made.partition("\n")[2]


def test_every_alert_names_a_section_of_a_page_that_the_package_brings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for rule in rules(printed(capsys)):
        named = re.fullmatch(
            r"`checkback docs (\w+)`, section (\w+)", rule["annotations"]["runbook"]
        )
        assert named is not None
        assert f"\n## {named[2]}\n" in pages()[named[1]].read_text("utf-8")


def test_no_alert_has_a_link_that_leads_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert not any("runbook_url" in rule["annotations"] for rule in rules(printed(capsys)))


def test_with_an_address_each_alert_links_its_own_section(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = printed(capsys, "--runbooks", PAGE)
    found = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules(text)}

    assert found == {name: f"{PAGE}#{name.lower()}" for name in found}
    file = tmp_path / "checkback.rules.yml"
    file.write_text(text, "utf-8")
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", file], check=True, capture_output=True)


@pytest.mark.parametrize("url", ["alerts.html", "file:///a.html", "https://", f"{PAGE}#down"])
def test_what_is_no_page_s_address_is_refused(url: str) -> None:
    assert execute(LazyGroup(NOUNS), ["deploy", "alerts", "--runbooks", url]) == 2
