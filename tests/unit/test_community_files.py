"""Workflows, hooks and the guide for contributors name only commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def commands(workflow: Path) -> list[str]:
    return re.findall(r"^ *- run: (.+)$", workflow.read_text("utf-8"), re.MULTILINE)


def test_there_are_workflows() -> None:
    assert [one.name for one in WORKFLOWS] == [
        "check.yml",
        "nightly.yml",
        "release.yml",
        "test.yml",
    ]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_a_workflow_runs_make_targets_that_exist_and_nothing_else(workflow: Path) -> None:
    ran = [line.split() for line in commands(workflow)]

    assert ran
    assert {words[0] for words in ran} == {"make"}
    assert {words[1] for words in ran} <= TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_a_workflow_pins_each_action_to_a_commit(workflow: Path) -> None:
    used = re.findall(r"uses: (.+)$", workflow.read_text("utf-8"), re.MULTILINE)

    assert used
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one)] == []


def test_the_console_s_screenshots_are_kept() -> None:
    steps = yaml.safe_load((WORKFLOWS[-1]).read_text("utf-8"))["jobs"]["test"]["steps"]
    [folder] = [step["env"]["CONSOLE_SCREENSHOTS"] for step in steps if "env" in step]
    [kept] = [step for step in steps if "upload-artifact" in step.get("uses", "")]

    assert kept["with"]["path"] == folder
    assert kept["if"] == "always()", "above all when a test failed"


def test_hooks_run_what_make_check_runs() -> None:
    entries = re.findall(r"entry: (.+)$", HOOKS, re.MULTILINE)

    assert entries
    assert [entry for entry in entries if f"\t{entry}\n" not in MAKEFILE] == []


def test_the_guide_has_five_commands_that_exist() -> None:
    table = re.findall(r"^\| `make ([a-z-]+)` \|", GUIDE, re.MULTILINE)

    assert len(table) == 5
    assert set(table) <= TARGETS


def test_the_guide_tells_of_every_kind_of_test() -> None:
    kinds = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("*.py"))}

    assert {kind for kind in kinds if f"`tests/{kind}/" not in GUIDE} == set()
