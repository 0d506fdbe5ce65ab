"""The workflows fit their schema, and what they call is there."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.unit.deploy_fields import vendored_schema

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_fits_its_schema(path: Path) -> None:
    text = re.sub(r"^on:", '"on":', path.read_text("utf-8"), flags=re.MULTILINE)

    jsonschema.validate(yaml.safe_load(text), vendored_schema("github-workflows"))
    assert all(re.search(r"@[0-9a-f]{40} # v", use) for use in re.findall(r"uses: .*", text))


def test_every_command_of_a_workflow_is_a_target_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.MULTILINE))
    for path in WORKFLOWS:
        commands = re.findall(r"^ *(?:- )?run: (.*)$", path.read_text("utf-8"), re.MULTILINE)
        assert commands, path
        for command in commands:
            assert command.split()[0] == "make", command
            assert command.split()[1] in targets, command


def test_the_platform_wheel_is_built_from_the_source_archive_that_is_released() -> None:
    """From a checkout cibuildwheel would copy .venv, gigabytes of it, into the container."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.split("\nplatform-wheel:")[1].split("\n\n")[0]
    commands = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")

    assert recipe.endswith("dist/checkback-*.tar.gz")
    assert commands.index("make release") < commands.index("make platform-wheel")


def test_the_parts_of_a_night_are_all_folders_that_have_nightly_tests() -> None:
    """A folder that no part names would never run."""
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text("utf-8")
    parts = yaml.safe_load(text)["jobs"]["tests"]["strategy"]["matrix"]["tests"]
    named = {folder for part in parts for folder in part.split() if not folder.startswith("--")}
    having = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"pytest\.mark\.nightly\b", path.read_text("utf-8"))
    }

    assert all((ROOT / folder).is_dir() for folder in named)
    assert having
    assert {
        path for path in having if not any(path.startswith(f"{one}/") for one in named)
    } == set()
