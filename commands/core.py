"""What all commands share: finding them, their output, their errors and exit codes."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

import click

from checkback.commands.error_document import asks_for_json, error_document
from checkback.commands.foreign_errors import explained
from checkback.commands.nouns import Noun
from checkback.commands.table import wrapped
from checkback.commands.version import version_text
from checkback.protocol.errors import CheckbackError, UsageError
from checkback.protocol.printable import printable

P = ParamSpec("P")
R = TypeVar("R")

EXIT_OK: Final = 0
EXIT_FOUND: Final = 1
"""Done, and the command found something: an audit fails, a topic differs from its plan."""
KEPT: Final = "\n\t"
EXIT_DEFECT: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_WITHOUT_READER: Final = 141


@dataclass
class CommandOutput:
    """Prints a command's result.

    Args:
        as_json: print one JSON document for programs; else text for people.
    """

    as_json: bool = False

    def show(self, data: Mapping[str, object], text: str, kept: str = KEPT) -> None:
        """Print a command's result.

        Args:
            data: the result for programs; its keys stay stable.
            text: the same for people. What in it would command their terminal is escaped: it
                tells of records, and whoever writes those may write anything.
            kept: characters of the text that are not escaped.
        """
        try:
            click.echo(json.dumps(data, default=str) if self.as_json else printable(text, kept))
        except BrokenPipeError:
            _leave_without_reader()

    def line(self, data: Mapping[str, object], text: str) -> None:
        """Print one event as one line, for commands that keep running."""
        self.show(data, text)
        sys.stdout.flush()

    def error(self, error: CheckbackError) -> None:
        """Print an error to standard error: one line, or one JSON object ``{"error": ...}``.

        On a terminal the line is folded, so that no word of it is broken.
        """
        if self.as_json:
            click.echo(error_document(error), err=True)
        else:
            click.echo(_for_terminal(f"checkback: {_one_line(str(error))}"), err=True)

    def usage_error(self, error: click.ClickException) -> None:
        """Print to standard error what is wrong with the command line."""
        if self.as_json:
            where = error.ctx if isinstance(error, click.UsageError) else None
            about = f"{where.command_path if where else 'checkback'} --help"
            wrong = UsageError(error.format_message(), remedy=f"Try `{about}`.")
            click.echo(error_document(wrong, exit_code=error.exit_code), err=True)
        else:
            error.show()

    def defect(self, error: Exception) -> None:
        """Print a defect's trace to standard error, as JSON if the output is JSON."""
        if self.as_json:
            found = CheckbackError(
                f"{type(error).__name__}: {error}",
                remedy="This is a defect of Checkback: please report it with the trace.",
                trace=traceback.format_exc(),
            )
            click.echo(error_document(found, kind="Defect", exit_code=EXIT_DEFECT), err=True)
        else:
            trace = "".join(traceback.format_exception(error))
            click.echo(printable(trace, KEPT), err=True)
            click.echo("checkback: a defect of Checkback; please report these lines.", err=True)


@dataclass
class Frame:
    """One run of the command line, click's ``obj``."""

    output: CommandOutput = field(default_factory=CommandOutput)


class LazyGroup(click.Group):
    """The top level; it imports a noun's module when the noun is run.

    Args:
        nouns: the nouns by name.
    """

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


def output_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add ``--output text|json`` to a command and pass it a CommandOutput as ``output``."""

    def chosen(ctx: click.Context, _: click.Parameter, value: str) -> CommandOutput:
        output = CommandOutput(as_json=value == "json")
        ctx.ensure_object(Frame).output = output
        return output

    option = click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        is_eager=True,  # so that an error in any other option is printed in the chosen form
        callback=chosen,
        help="For people, or one JSON document for programs.",
    )
    return option(function)


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


def _leave_without_reader() -> NoReturn:
    """Exit as if ended by SIGPIPE: the reader of the output, `head` for example, has closed it."""
    # The interpreter flushes once more at exit, which would raise the same error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_WITHOUT_READER)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _for_terminal(line: str) -> str:
    if not sys.stderr.isatty():
        return line
    return wrapped(line, shutil.get_terminal_size().columns)


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
