"""Every command line in the documents is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from checkback.commands.core import LazyGroup
from checkback.commands.nouns import NOUNS

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


def problem_of(line: str) -> str:
    """Return what the command line says against it, "" for nothing; nothing is run."""
    words = shlex.split(line)[1:]
    command: click.Command = LazyGroup(NOUNS)
    context = click.Context(command, info_name="checkback")
    while isinstance(command, click.Group) and words and not PLACEHOLDER.match(words[0]):
        found = command.get_command(context, words[0])
        if found is None:
            return f"no {words[0]}"
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    try:
        command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_documented_command_line_is_taken(document: Path) -> None:
    problems = {line: problem_of(line) for line in command_lines(document)}

    assert {line: problem for line, problem in problems.items() if problem} == {}


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
