"""Options of the operators' commands: ages as people write them, and who acts."""

from __future__ import annotations

import getpass

import click
import pytest
from click.testing import CliRunner

from checkback.commands.operator_options import listing_options, operator_option


@click.command()
@operator_option
@listing_options
def say(**chosen: object) -> None:
    click.echo(chosen)


def test_an_age_reaches_the_command_in_milliseconds() -> None:
    told = CliRunner().invoke(say, ["--older-than", "1h30m", "--operator", "ann"])

    assert "'older_than': 5400000" in told.output


@pytest.mark.parametrize(
    "words", [["--older-than", "soon"], ["--older-than", "-5s"], ["--limit", "0"]]
)
def test_what_is_no_age_or_no_number_is_refused(words: list[str]) -> None:
    assert CliRunner().invoke(say, words).exit_code == 2


def test_the_operator_is_the_user_of_the_process_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")

    assert "'operator': 'ann'" in CliRunner().invoke(say, []).output
    assert "'operator': 'bob'" in CliRunner().invoke(say, ["--operator", "bob"]).output
