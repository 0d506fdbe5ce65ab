"""`checkback docs` has every page, and error texts name pages that a pip user has."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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
