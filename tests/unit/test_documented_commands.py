"""docs/commands.md names every command, and only options that the command has."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from checkback.commands.core import LazyGroup
from checkback.commands.nouns import NOUNS

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
