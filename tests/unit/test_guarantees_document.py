"""docs/guarantees.md names every crash case; test_documents_linked.py knows its other tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
LINKS = sorted(set(re.findall(r"`(tests/[^`]+\.py)::(\w+)(?:\[([^`]+)\])?`", TEXT)))
CRASH_TESTS = ("tests/crash/test_crash_points.py", "tests/crash/test_executor.py")


def test_only_crash_tests_are_named_with_a_case() -> None:
    assert {path for path, _, case in LINKS if case} == set(CRASH_TESTS)


def test_every_step_of_a_batch_is_numbered_in_the_code() -> None:
    part = TEXT.partition("## How a batch is written")[2].partition("\n## ")[0]
    steps = {int(number) for number in re.findall(r"^(\d+)\. ", part, re.MULTILINE)}
    said = [
        match.groups()
        for name in re.findall(r"`([a-z_/]+\.py)`", part)
        for match in re.finditer(r"# Steps? (\d+)(?: (to|and) (\d+))?", (ROOT / name).read_text())
    ]

    numbered = {
        number for first, _, last in said for number in range(int(first), int(last or first) + 1)
    }
    assert numbered == steps


def test_every_row_of_a_crash_has_its_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and " | " in line]
    heads = [line for line in rows if line.startswith(("| crash |", "| found |"))]

    assert heads
    assert [row for row in rows if row not in heads and "`tests/" not in row] == []


@pytest.mark.parametrize("path", CRASH_TESTS)
def test_every_case_has_its_row(path: str) -> None:
    told = {case for where, _, case in LINKS if where == path and case}

    assert told
    assert case_names(ast.parse((ROOT / path).read_text("utf-8"))) - {"machine-mid-produce"} == told


def case_names(tree: ast.Module) -> set[str]:
    """Return the first argument of every Case: the parameter's id."""
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "Case"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }
