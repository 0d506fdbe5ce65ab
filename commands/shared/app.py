"""The top level of the command line: finding a command, running it, and its exit code."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click

from checkback.commands.shared.errors import (
    EXIT_DEFECT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    asks_for_json,
    explained,
)
from checkback.commands.shared.output import CommandOutput
from checkback.commands.version import version_text
from checkback.protocol.errors import CheckbackError

NOUNS: Final[Mapping[str, str]] = {
    "acl": "Explain access control, check its rules, print Kafka's grants.",
    "broker": "Run a local Kafka broker.",
    "checkpoint": "Inspect, verify or rebuild a checkpoint.",
    "config": "Show the settings in effect.",
    "demo": "Run all of Checkback on real input, and audit it.",
    "console": "Show and decide transactions in a browser.",
    "deploy": "Pack what a cluster needs; write alert rules.",
    "discarded": "List, show and resume discarded messages.",
    "docs": "Show the documents of this version.",
    "doctor": "Check everything that the pipeline needs.",
    "jars": "Fetch the jars of Spark and Kafka.",
    "ledger": "Maintain the Delta table of the ledger.",
    "pending": "List what waits for a verdict.",
    "refused": "List refused records, and send finals again.",
    "relay": "End clean, young transactions at once.",
    "run": "Run the transaction checker.",
    "topics": "Create and compare the topics.",
    "tx": "Look at one transaction, and decide it by hand.",
}
"""The commands of the top level, each with its summary; a module of this name has it."""


class LazyGroup(click.Group):
    """The top level; it imports a noun's module when the noun is run."""

    def __init__(self, nouns: Mapping[str, str]) -> None:
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
        if cmd_name not in self._nouns:
            return None
        command: click.Command = import_module(f"checkback.commands.{cmd_name}").command
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the nouns with their summaries, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._nouns.items()))


def execute(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command, print its error if it raises one, and return the exit code."""
    output = CommandOutput(as_json=asks_for_json(arguments))
    # What a client logs is not a command's output: its errors are printed once, as ours. A command
    # that sets up logging still receives the log records.
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    try:
        result = command.main(list(arguments), "checkback", standalone_mode=False, obj=output)
    except CheckbackError as error:
        output.error(error)
        return error.exit_code
    except click.ClickException as error:
        output.usage_error(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:
        known = explained(error)
        if known is None:
            output.defect(error)
            return EXIT_DEFECT
        output.error(known)
        return known.exit_code
    return result if isinstance(result, int) else EXIT_OK


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
