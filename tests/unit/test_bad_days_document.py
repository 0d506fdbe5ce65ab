"""docs/operating/bad-days.md names only existing tests, and only days that it describes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operating" / "bad-days.md").read_text("utf-8")
LINKS = sorted(set(re.findall(r"`(tests/[^`]+\.py)::(\w+)`", TEXT)))
ANCHORS = sorted(set(re.findall(r"\]\(#([^)]+)\)", TEXT)))


@pytest.mark.parametrize(("path", "name"), LINKS)
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text("utf-8"))

    assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_day_that_is_listed_is_described(anchor: str) -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)

    assert anchor in {one.lower().replace(" ", "-") for one in headings}
