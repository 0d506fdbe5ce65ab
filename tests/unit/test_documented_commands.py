"""docs/commands.md names every command with its options; every command line elsewhere is taken."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
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
    for noun in NOUNS:
        command = import_module(f"checkback.commands.{noun}").command
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


ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
    if path.parent.name != "decisions"
)
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
SPAN = re.compile(r"`(checkback(?: [^`]+)?)`")
COMMAND = re.compile(r"^\s*(?:\$ |[\w/.-]+/)?(checkback .*)$", re.MULTILINE)
AFTER_IT = re.compile(r"\s(?:\||>|>>|2>|&&|&|;|#)(?:\s|$).*")
SHORTHAND = re.compile(r"[…|\[\]*]|<[a-z]")
"""Spans with these describe a family of commands, not one."""
PLACEHOLDER = re.compile(r"-|[A-Z]")
"""What stands where a noun or verb would: an option, or a word like VERB."""


def command_lines(document: Path) -> Iterator[str]:
    text = document.read_text("utf-8").replace("\\\n", " ")
    for _, block in FENCED.findall(text):
        yield from (AFTER_IT.sub("", line) for line in COMMAND.findall(block))
    spans = SPAN.findall(FENCED.sub("", text))
    yield from (span for span in spans if not SHORTHAND.search(span))


def parsed(line: str) -> tuple[click.Context, list[str]]:
    """Return the command that a line names, and the words after it; nothing is run.

    Raises:
        LookupError: there is no such command.
    """
    words = shlex.split(line)[1:]
    command: click.Command = LazyGroup(NOUNS)
    context = click.Context(command, info_name="checkback")
    while isinstance(command, click.Group) and words and not PLACEHOLDER.match(words[0]):
        found = command.get_command(context, words[0])
        if found is None:
            raise LookupError(f"no {words[0]}")
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    return context, words


def problem_of(line: str) -> str:
    """Return what the command line says against it, "" for nothing."""
    try:
        context, words = parsed(line)
        context.command.make_parser(context).parse_args(list(words))
    except (LookupError, click.UsageError) as error:
        return error.format_message() if isinstance(error, click.UsageError) else str(error)
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_documented_command_line_is_taken(document: Path) -> None:
    problems = {line: problem_of(line) for line in command_lines(document)}

    assert {line: problem for line, problem in problems.items() if problem} == {}


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "operating").glob("*.md")), ids=lambda path: path.name
)
def test_a_step_of_a_runbook_does_what_the_page_says(page: Path) -> None:
    """Without --yes such a command only says what it would do; without --why it does not start."""
    lacking = []
    for paragraph in page.read_text("utf-8").splitlines():
        for span in SPAN.findall(paragraph):
            context, words = parsed(span)
            options = {name for one in context.command.params for name in one.opts}
            if words and "--yes" in options and "--yes" not in paragraph:
                lacking.append(f"{span}: --yes")
            if words and "--why" in options and "--why" not in words:
                lacking.append(f"{span}: --why")

    assert lacking == []


@pytest.mark.parametrize(
    "document", [ROOT / "CONTRIBUTING.md", *DOCUMENTS], ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_documented_target_is_one_of_make(document: Path) -> None:
    named = re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert set(named) <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_command_lines_are_found() -> None:
    alerts = list(command_lines(ROOT / "docs" / "operating" / "alerts.md"))

    assert "checkback pending --older-than 5m" in alerts
    assert len(set(alerts)) > 8
    assert sum(1 for document in DOCUMENTS for _ in command_lines(document)) > 150


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("checkback tx resolve ID --commit --reason TEXT", "No such option"),
        ("checkback tx decide", "no decide"),
        ("checkback nonsense", "no nonsense"),
        ("checkback pending --older-than", "requires an argument"),
        ("checkback --version", ""),
    ],
)
def test_a_wrong_line_is_noticed(line: str, problem: str) -> None:
    found = problem_of(line)

    assert (problem in found) if problem else found == ""
