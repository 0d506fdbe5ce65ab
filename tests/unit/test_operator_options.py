"""Options of the operators' commands: ages as people write them, and who acts."""

from __future__ import annotations

import getpass

import click
import pytest
from click.testing import CliRunner

from checkback.commands.shared.options import DurationType, ReasonType, operator_option


@click.command()
@operator_option
@click.option("--older-than", type=DurationType())
def say(**chosen: object) -> None:
    click.echo(chosen)


def test_an_age_reaches_the_command_in_milliseconds() -> None:
    told = CliRunner().invoke(say, ["--older-than", "1h30m", "--operator", "ann"])

    assert "'older_than': 5400000" in told.output


@pytest.mark.parametrize("age", ["soon", "-5s"])
def test_what_is_no_age_is_refused(age: str) -> None:
    assert CliRunner().invoke(say, ["--older-than", age]).exit_code == 2


@click.command()
@click.option("--reason", type=ReasonType())
def say_reason(reason: str) -> None:
    click.echo(reason)


def test_a_mistyped_reason_is_answered_with_the_one_that_was_meant() -> None:
    """It was answered with all of them, in lower case."""
    right = CliRunner().invoke(say_reason, ["--reason", "real_topic_missing"])
    wrong = CliRunner().invoke(say_reason, ["--reason", "REAL_TOPIC_MISING"])
    strange = CliRunner().invoke(say_reason, ["--reason", "x"])

    assert right.output == "REAL_TOPIC_MISSING\n"
    assert (wrong.exit_code, strange.exit_code) == (2, 2)
    assert "Did you mean REAL_TOPIC_MISSING?" in wrong.output
    assert "'x' is no reason. `checkback docs protocol` lists them." in strange.output


def test_the_operator_is_the_user_of_the_process_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")

    assert "'operator': 'ann'" in CliRunner().invoke(say, []).output
    assert "'operator': 'bob'" in CliRunner().invoke(say, ["--operator", "bob"]).output
