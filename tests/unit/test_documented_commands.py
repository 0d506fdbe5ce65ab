"""docs/commands.md names every command, and only options that the command has."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from checkback.checkpoints.access_versions import AccessVersion
from checkback.commands.core import LazyGroup
from checkback.commands.nouns import NOUNS
from checkback.streaming.access_watch import change_facts

TEXT = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
SECTIONS: dict[str, str] = dict(
    re.findall(r"^### `checkback ([a-z -]+)`\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
)
OPTION = re.compile(r"--[a-z][a-z-]*")


def existing() -> set[str]:
    found = set()
    for noun, one in NOUNS.items():
        command = import_module(one.module).command
        verbs = command.commands if isinstance(command, click.Group) else None
        found |= {f"{noun} {verb}" for verb in verbs} if verbs else {noun}
    return found


def test_every_command_is_documented() -> None:
    assert SECTIONS.keys() == existing()


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_a_documented_command_has_the_options_that_are_said(name: str) -> None:
    told = CliRunner().invoke(LazyGroup(NOUNS), [*name.split(), "--help"], obj=None)

    assert told.exit_code == 0, told.output
    # Skip the options that the text names for another command.
    own = re.sub(rf"`checkback (?!{name}\b)[^`]*`", "", SECTIONS[name])
    assert {*OPTION.findall(own), "--output"} <= set(OPTION.findall(told.output))


def test_every_line_of_a_running_job_is_documented_with_its_keys() -> None:
    job = (Path(__file__).parents[2] / "streaming" / "job.py").read_text("utf-8")
    events = set(re.findall(r"self\.emit\(\s*\"(\w+)\"", job))
    keys = set(change_facts(AccessVersion(0), AccessVersion(0)))

    assert events >= {"started", "progress", "stopped", "access_rules", "access_rules_broken"}
    assert {name for name in {*events, *keys} if f"`{name}`" not in SECTIONS["run"]} == set()
