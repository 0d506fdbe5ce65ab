"""Pages and alert rules that the package brings: every page, and links to where they are."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkback.commands.docs import pages
from checkback.commands.shared.app import NOUNS, LazyGroup, execute

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in ROOT.glob("*/__init__.py"))
NAMED = re.compile(r"`checkback docs ([a-z-]+)`")
OF_A_CHECKOUT = {"docs/operating/metrics.md"}
"""What `python -m checkback.metrics` writes."""


def run(*arguments: str) -> int:
    return execute(LazyGroup(NOUNS), ["docs", *arguments])


def texts() -> Iterator[str]:
    """Every text of the code that is not a docstring."""
    for path in (path for folder in FOLDERS for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in docstrings:
                yield str(node.value)


def test_every_document_is_a_page() -> None:
    documents = {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/operating/*.md")}

    assert {path.stem for path in documents} == set(pages())
    assert len(documents) == len(pages())


def test_texts_name_pages_by_the_command_and_only_pages_that_exist() -> None:
    found = list(texts())
    by_path = {path for text in found for path in re.findall(r"docs/\S+\.md", text)}
    named = {name for text in found for name in NAMED.findall(text)}

    assert by_path <= OF_A_CHECKOUT
    assert {"recovering", "bad-days", "alerts"} <= named <= set(pages())


@pytest.mark.parametrize("name", ["bad-days", "bad-days.md", "docs/operating/bad-days.md"])
def test_a_page_is_shown_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name) == 0
    assert capsys.readouterr().out.startswith("# Bad days\n")


def test_without_a_name_the_pages_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["pages"]["bad-days"] == "Bad days"


def test_a_page_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("good-days") == 2
    assert "`checkback docs` lists them" in capsys.readouterr().err


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

    assert printed(capsys) == made
    assert json.loads(printed(capsys, "--output", "json"))["rules"] == made


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
