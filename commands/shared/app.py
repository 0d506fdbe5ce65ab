"""The top level of the command line: finding a command, running it, and its exit code."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from checkback.commands.shared.errors import (
    EXIT_DEFECT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    asks_for_json,
    explained,
)
from checkback.commands.shared.output import CommandOutput, Frame
from checkback.commands.version import version_text
from checkback.protocol.errors import CheckbackError


class Noun(NamedTuple):
    """One command of the top level."""

    module: str
    summary: str


NOUNS: Final[dict[str, Noun]] = {
    "acl": Noun(
        "checkback.commands.acl", "Explain access control, check its rules, print Kafka's grants."
    ),
    "broker": Noun("checkback.commands.broker", "Run a local Kafka broker."),
    "checkpoint": Noun("checkback.commands.checkpoint", "Inspect, verify or rebuild a checkpoint."),
    "config": Noun("checkback.commands.config", "Show the settings in effect."),
    "demo": Noun("checkback.commands.demo", "Run all of Checkback on real input, and audit it."),
    "console": Noun("checkback.commands.console", "Show and decide transactions in a browser."),
    "deploy": Noun("checkback.commands.deploy", "Pack what a cluster needs; write alert rules."),
    "discarded": Noun("checkback.commands.discarded", "List, show and resume discarded messages."),
    "docs": Noun("checkback.commands.docs", "Show the documents of this version."),
    "doctor": Noun("checkback.commands.doctor", "Check everything that the pipeline needs."),
    "jars": Noun("checkback.commands.jars", "Fetch the jars of Spark and Kafka."),
    "ledger": Noun("checkback.commands.ledger", "Maintain the Delta table of the ledger."),
    "pending": Noun("checkback.commands.pending", "List what waits for a verdict."),
    "refused": Noun("checkback.commands.refused", "List refused records, and send finals again."),
    "relay": Noun("checkback.commands.relay", "End clean, young transactions at once."),
    "run": Noun("checkback.commands.run", "Run the transaction checker."),
    "topics": Noun("checkback.commands.topics", "Create and compare the topics."),
    "tx": Noun("checkback.commands.tx", "Look at one transaction, and decide it by hand."),
}


class LazyGroup(click.Group):
    """The top level; it imports a noun's module when the noun is run."""

    def __init__(self, nouns: Mapping[str, Noun]) -> None:
        super().__init__(
            "checkback",
            help="Transactional messages on Kafka topics, with Spark as the transaction checker.",
            epilog="Exit codes: 0 done, 1 something was found, 2 used wrongly, 3 the environment"
            " is not as needed, 4 refused to protect the guarantee.",
            no_args_is_help=True,
        )
        self._nouns = nouns
        self.params.append(_version_option())

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the nouns in alphabetical order."""
        return sorted(self._nouns)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the noun's command, None if there is no such noun."""
        noun = self._nouns.get(cmd_name)
        if noun is None:
            return None
        command: click.Command = import_module(noun.module).command
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the nouns with their summaries, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._nouns[name].summary) for name in sorted(self._nouns)])


def execute(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, print its error if it raises one, and return the exit code."""
    frame = Frame(CommandOutput(as_json=asks_for_json(arguments)))
    # What a client logs is not a command's output: its errors are printed once, as ours. A command
    # that sets up logging still receives the log records.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        result = command.main(list(arguments), "checkback", standalone_mode=False, obj=frame)
    except CheckbackError as error:
        frame.output.error(error)
        return error.exit_code
    except click.ClickException as error:
        frame.output.usage_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:
        return _unexpected(frame.output, error)
    return result if isinstance(result, int) else EXIT_OK


def _unexpected(output: CommandOutput, error: Exception) -> int:
    known = explained(error)
    if known is not None:
        output.error(known)
        return known.exit_code
    output.defect(error)
    return EXIT_DEFECT


def _version_option() -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(version_text())
            ctx.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Show the version.",
    )
