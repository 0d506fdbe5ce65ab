"""What README.md says holds: commands, options, exit codes, settings, links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from checkback.commands.core import (
    EXIT_DEFECT,
    EXIT_FOUND,
    EXIT_INTERRUPTED,
    EXIT_WITHOUT_READER,
    LazyGroup,
)
from checkback.commands.nouns import NOUNS
from checkback.deploy.settings import load_settings
from checkback.protocol import errors

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
FIRST_SCREEN = "\n".join(README.splitlines()[:40])


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def command_lines() -> list[str]:
    in_blocks = [line for block in blocks("sh") for line in block.splitlines()]
    quoted = re.findall(r"`(checkback [^`]+)`", README)
    return sorted({line for line in (*in_blocks, *quoted) if line.startswith("checkback ")})


def make_targets() -> list[str]:
    return sorted(set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE)))


@pytest.mark.parametrize("line", command_lines())
def test_every_command_exists_with_the_options_it_is_shown_with(line: str) -> None:
    words = shlex.split(line)[1:]
    options = [word for word in words if word.startswith("--")]
    names = words[: words.index(options[0])] if options else words
    shown = CliRunner().invoke(LazyGroup(NOUNS), [*names, "--help"])

    assert shown.exit_code == 0
    assert f"{' '.join(names)} [OPTIONS]" in shown.output, "a group is no command"
    assert [option for option in options if option not in shown.output] == []


def test_several_commands_are_shown() -> None:
    assert len(command_lines()) >= 8


@pytest.mark.parametrize("target", make_targets())
def test_every_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_the_first_screen_has_both_commands_a_picture_and_a_run() -> None:
    assert "make demo" in FIRST_SCREEN
    assert "make test" in FIRST_SCREEN
    assert "half topic" in FIRST_SCREEN
    assert "Audit passed" in FIRST_SCREEN


def test_the_configuration_is_taken_as_it_stands(tmp_path: Path) -> None:
    (configuration,) = blocks("toml")
    file = tmp_path / "checkback.toml"
    file.write_text(configuration, "utf-8")
    settings = load_settings(file, {}, {})

    assert settings.bootstrap_servers == "localhost:9092"
    assert settings.kafka == {"client.id": "checkback"}


def test_every_exit_code_is_listed() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.CheckbackError)
    }

    ours = {0, EXIT_FOUND, EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_WITHOUT_READER}
    assert listed == ours | raised


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)

    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
