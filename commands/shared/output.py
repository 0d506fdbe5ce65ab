"""What commands print: results as text or JSON, tables, errors, and how far a scan is."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec, TypeVar

import click

from checkback.commands.shared.errors import EXIT_DEFECT, EXIT_WITHOUT_READER, error_document
from checkback.metrics.printable import printable
from checkback.protocol.errors import CheckbackError, UsageError

if TYPE_CHECKING:
    from checkback.operations.topics.scanner import Advance

GAP: Final = "  "
KEPT: Final = "\n\t"

P = ParamSpec("P")
R = TypeVar("R")
Facts = TypeVar("Facts")


@dataclass
class CommandOutput:
    """Prints a command's result; click's ``obj``, so that errors are printed in the same form."""

    as_json: bool = False

    def show(
        self, data: Mapping[str, object], text: str, kept: str = KEPT, *, is_folded: bool = True
    ) -> None:
        """Print a command's result.

        Args:
            data: the result for programs; its keys stay stable.
            text: the same for people. What in it would command their terminal is escaped: it
                shows records, and their writers choose its text.
            kept: characters of the text that are not escaped.
            is_folded: whether long lines are folded; not where people copy whole lines.
        """
        shown = printable(terminal_text(text) if is_folded else text, kept)
        try:
            click.echo(json.dumps(data, default=str) if self.as_json else shown)
        except BrokenPipeError:
            _leave_without_reader()

    def line(self, data: Mapping[str, object], text: str) -> None:
        """Print one event as one line, for commands that keep running."""
        self.show(data, text, is_folded=False)
        sys.stdout.flush()

    def error(self, error: CheckbackError) -> None:
        """Print an error to standard error: one line, or one JSON object ``{"error": ...}``.

        On a terminal the line is folded, so that no word of it is broken.
        """
        if self.as_json:
            click.echo(error_document(error), err=True)
        else:
            line = printable(f"checkback: {' '.join(str(error).split())}")
            if sys.stderr.isatty():
                line = wrapped(line, shutil.get_terminal_size().columns)
            click.echo(line, err=True)

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


def output_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add ``--output text|json`` to a command and pass it a CommandOutput as ``output``."""

    def chosen(ctx: click.Context, _: click.Parameter, value: str) -> CommandOutput:
        output = ctx.ensure_object(CommandOutput)
        output.as_json = value == "json"
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


def losing_lines(emit: Callable[[str, Facts], None]) -> Callable[[str, Facts], None]:
    """Wrap a writer of events: a full disk then costs lines, not the process."""

    def emit_or_drop(event: str, facts: Facts) -> None:
        try:
            emit(event, facts)
        except BrokenPipeError:
            raise  # the reader has gone for good
        except OSError:
            return

    return emit_or_drop


def terminal_columns() -> int | None:
    """Return how wide the terminal is; None where a program reads, which wants a line per row."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def table_text(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return the headings and the rows, columns aligned. What would command a terminal is escaped.

    Where a row is wider than the terminal, each row is a block with a line for each cell, so that
    none is broken: people copy ids. Without a terminal each row is one line.
    """
    columns = terminal_columns()
    cells = [[printable(str(cell).replace("\n", " ")) for cell in row] for row in rows]
    every = [list(headings), *cells] if any(headings) else cells
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    lines = [GAP.join(map(str.ljust, row, widths)).rstrip() for row in every]
    if columns is None or max(map(len, lines), default=0) <= columns:
        return "\n".join(lines)
    if not any(headings):
        return "\n".join(lines)
    width = max(map(len, headings))
    blocks = [
        "\n".join(f"{heading:<{width}}{GAP}{cell}".rstrip() for heading, cell in pairs)
        for pairs in (zip(headings, row, strict=True) for row in cells)
    ]
    return "\n\n".join(blocks)


def list_text(
    headings: Sequence[str], rows: Sequence[Sequence[object]], nothing: str, *, is_filtered: bool
) -> str:
    """Return a table for the terminal; without rows, a sentence."""
    if rows:
        return table_text(headings, rows)
    return "Nothing matches." if is_filtered else nothing


def terminal_text(text: str) -> str:
    """Return text with lines that fit the terminal; no word is broken, as ids may be copied."""
    columns = terminal_columns()
    return text if columns is None else wrapped(text, columns)


def wrapped(text: str, columns: int, indent: str = GAP) -> str:
    """Return text folded to a number of columns; the folds of a line begin with an indent."""
    wrapper = textwrap.TextWrapper(
        max(columns, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(part for line in text.split("\n") for part in wrapper.wrap(line) or [""])


@contextmanager
def scan_progress() -> Iterator[Advance]:
    """Yield the callback for a scanner's progress; the bar disappears when the scan ends."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console  # late: rich loads slowly
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("reading {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def advance(topic: str, behind: int, total: int) -> None:
            progress.update(task, description=topic, completed=behind, total=total)

        yield advance


def _leave_without_reader() -> NoReturn:
    """Exit as if ended by SIGPIPE: the reader of the output, `head` for example, has closed it."""
    # The interpreter flushes once more at exit, which would raise the same error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_WITHOUT_READER)
