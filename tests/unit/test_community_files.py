"""Workflows, hooks and the guide for contributors name only commands that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.unit.deploy_fields import vendored_schema

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def commands(workflow: Path) -> list[str]:
    return re.findall(r"^ *- run: (.+)$", workflow.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_a_workflow_fits_its_schema(workflow: Path) -> None:
    text = re.sub(r"^on:", '"on":', workflow.read_text("utf-8"), flags=re.MULTILINE)

    jsonschema.validate(yaml.safe_load(text), vendored_schema("github-workflows"))


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


def jobs(name: str) -> dict[str, Any]:
    """Return the jobs of a workflow by name."""
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
    return dict(yaml.safe_load(text)["jobs"])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.name)
def test_whoever_runs_tests_has_the_programs_that_they_need(workflow: Path) -> None:
    """Without promtool and Chromium tests skip, and nobody sees that alerts were not tried."""
    for job in jobs(workflow.stem).values():
        ran = [step["run"].split()[1] for step in job["steps"] if "run" in step]
        for target in {"unit", "test", "nightly"} & set(ran):
            assert "programs" in ran[: ran.index(target)], (workflow.name, target)


def nightly_limits_s() -> dict[str, int]:
    """Return the sum of the limits of each file's nightly tests, by the file's path."""
    default_s = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]
    found = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text("utf-8")
        marked = re.findall(r"pytest\.mark\.nightly\b(?!`)", text)
        limits = map(int, re.findall(r"nightly.*\n@pytest\.mark\.timeout\(([\d_]+)\)", text))
        if marked and path != Path(__file__):
            own = [*limits]
            rest = (len(marked) - len(own)) * default_s["ini_options"]["timeout"]
            found[str(path.relative_to(ROOT))] = sum(own) + rest
    return found


def is_in(name: str, place: str) -> bool:
    return f"{name}/".startswith(f"{place}/")


def test_the_nightly_parts_are_all_nightly_tests_and_each_can_end() -> None:
    job = jobs("nightly")["tests"]
    limits_s = nightly_limits_s()
    parts: list[list[str]] = [one.split() for one in job["strategy"]["matrix"]["tests"]]

    assert len(limits_s) > 8
    seen = []
    for folder, *ignored in parts:
        without = [one.removeprefix("--ignore=") for one in ignored]
        files = [
            name
            for name in limits_s
            if is_in(name, folder) and not any(is_in(name, one) for one in without)
        ]
        assert files, folder
        assert sum(limits_s[name] for name in files) < 60 * (job["timeout-minutes"] - 20), folder
        seen += files
    assert sorted(seen) == sorted(limits_s)


def test_every_kind_of_test_is_run_by_day() -> None:
    lists = re.findall(r"^(?:MEASURED|WITH(?:OUT)?_BROKER) \??:?= (.*)$", MAKEFILE, re.MULTILINE)
    named = {word for words in lists for word in words.split() if word.startswith("tests/")}
    kinds = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")}

    assert {f"tests/{kind}" for kind in kinds} == named
