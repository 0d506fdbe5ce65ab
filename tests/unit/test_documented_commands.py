"""docs/commands.md names every command with all of its options, and only those."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from checkback.checkpoints.own_files.batch_terms import AccessVersion
from checkback.commands.shared import errors
from checkback.commands.shared.app import NOUNS, LazyGroup
from checkback.protocol.configuration import Settings
from checkback.protocol.errors import CheckpointError, OperationalError, UsageError
from checkback.streaming.access.rules_in_force import change_facts

TEXT = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
SECTIONS: dict[str, str] = dict(
    re.findall(r"^### `checkback ([a-z -]+)`\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
)
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
SETTINGS = {"--set", *(f"--{field.name.replace('_', '-')}" for field in fields(Settings))}
TOLD_ONCE = {"--output", "--config", "--help"}
"""Of every command that has them; the head of the page says what they do."""


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


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_option_of_a_command_is_documented(name: str) -> None:
    told = set(OPTION.findall(SECTIONS[name]))

    assert options_of(name) - SETTINGS - TOLD_ONCE - told == set()


@pytest.mark.parametrize("noun", ["", *sorted(NOUNS)])
def test_a_list_of_commands_says_whole_sentences_at_80_columns(noun: str) -> None:
    """More than half of the lines of a list of commands ended in "..."."""
    told = CliRunner().invoke(LazyGroup(NOUNS), [*noun.split(), "--help"], terminal_width=80)
    _, _, listed = told.output.partition("\nCommands:\n")

    assert [line for line in listed.splitlines() if line.endswith("...")] == []


def options_of(name: str) -> set[str]:
    command: click.Command = LazyGroup(NOUNS)
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    names = {one for parameter in command.params for one in parameter.opts}
    return {one for one in names if one.startswith("--")}


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    codes |= {one.exit_code for one in (UsageError, OperationalError, CheckpointError)}

    assert {int(code) for code in re.findall(r"^\| (\d+) \| ", TEXT, re.MULTILINE)} == codes


def test_every_line_of_a_running_job_is_documented_with_its_keys() -> None:
    job = (Path(__file__).parents[2] / "streaming" / "job" / "run.py").read_text("utf-8")
    events = set(re.findall(r"self\.emit\(\s*\"(\w+)\"", job))
    keys = set(change_facts(AccessVersion(), AccessVersion(), 0))

    assert events >= {"started", "progress", "stopped", "access_rules", "access_rules_broken"}
    assert {name for name in {*events, *keys} if f"`{name}`" not in SECTIONS["run"]} == set()
